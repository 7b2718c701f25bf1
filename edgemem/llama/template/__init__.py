"""Chat templates: strangers' programs in Jinja, run with bounds, whose limits are found out by rendering a few messages.

What one more family of models wants is a field of `limits.TemplateLimits` and a probe for it, not a branch elsewhere.
"""
