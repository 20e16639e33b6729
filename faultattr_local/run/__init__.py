"""Runs: flows driven on an engine, admitted by size, recorded in a folder, resumed."""
