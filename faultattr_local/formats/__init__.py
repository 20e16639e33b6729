"""Trace files to trajectories: bytes to JSON values (`documents`), then one file per format."""

from faultattr_local.formats.read import ReadResult, read_file, read_paths, read_trajectories
from faultattr_local.formats.registry import FORMATS

__all__ = ["FORMATS", "ReadResult", "read_file", "read_paths", "read_trajectories"]
