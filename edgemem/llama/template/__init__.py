"""Chat templates: strangers' programs in Jinja, run with bounds; trial renderings tell their limits.

One more family of models gets a field of `limits.TemplateLimits` and a probe, not a branch elsewhere.
"""
