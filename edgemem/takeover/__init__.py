"""Taking over what another memory wrote: a module for each system reads its files, without a change to them, into a home once."""
