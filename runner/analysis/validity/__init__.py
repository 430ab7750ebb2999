"""Rules that say how far a measured cell, and a group of cells, can be believed."""
