"""What runs and reports look like: displays of graphs and threads, and the pages that hold them."""
