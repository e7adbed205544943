"""ListOps, trained for half a minute; the network itself is in weft/demo/listops.py."""

from weft.demo import load_listops

if __name__ == "__main__":
    load_listops().main()
