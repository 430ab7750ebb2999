"""Where each AIPerf version writes what a request record holds: one data file per layout."""
