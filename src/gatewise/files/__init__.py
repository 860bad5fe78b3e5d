"""Values ⇄ files: the only room that opens one."""

from gatewise.files.bundled import LEDGER, QUESTIONS, STUDY, TRACES, published, reconstruction
from gatewise.files.disk import digest_of
from gatewise.files.gates import write_gate
from gatewise.files.maps import FRONTIER_COLUMNS, frontier_rows, read_map, write_csv, write_map
from gatewise.files.plans import plan_json, plan_lines, read_plans, write_plans
from gatewise.files.rows import read_rows
from gatewise.files.traces import read_traces, write_traces

__all__ = [
    "FRONTIER_COLUMNS",
    "LEDGER",
    "QUESTIONS",
    "STUDY",
    "TRACES",
    "digest_of",
    "frontier_rows",
    "plan_json",
    "plan_lines",
    "published",
    "read_map",
    "read_plans",
    "read_rows",
    "read_traces",
    "reconstruction",
    "write_csv",
    "write_gate",
    "write_map",
    "write_plans",
    "write_traces",
]
