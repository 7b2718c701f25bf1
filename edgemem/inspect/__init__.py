"""Looking at a memory without a change to it: the next prompt and why; a replay plays a script into the home that it is given."""
