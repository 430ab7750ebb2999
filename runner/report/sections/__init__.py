"""The parts of a report, in the order in which a model card wants them."""
