"""People: whom a sentence names, compared by sound because a recogniser writes names as it pleases, and `hints` for it."""
