"""The report as one HTML page: its tables, plots and single problems. Internal."""
