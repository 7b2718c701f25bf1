"""People: which people a sentence names, also where a recogniser wrote a name as it pleased.

Names are compared by how they are spoken; what a recogniser should expect to hear is told by `hints`.
"""
