"""Writes out what was declared: C++ views of the schema, units, graphs, manifests."""
