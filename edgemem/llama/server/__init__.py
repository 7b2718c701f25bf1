"""A chat model behind llama.cpp's own server, with the promises of `LlamaChat`; `client` checks each answer where it enters."""
