"""A chat model behind llama.cpp's own server: the client, over our own sockets, and the conversation.

What `LlamaChat` promises holds here as well; what a server answers is checked where it enters, in `client`.
"""
