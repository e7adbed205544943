"""What the pages under docs/ and README.md show is run and compared: see pages.py."""
