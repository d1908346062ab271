"""Views of graphs, threads and reports, and the pages that hold them. Internal."""
