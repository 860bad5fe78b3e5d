import subprocess

import pytest

from gatewise.reports.snippets import Origin, among, by_option, command, program, shell_word

HOSTILE = [
    "a b",
    "it's",
    "$(touch x)",
    "`id`",
    "a;b",
    "new\nline",
    "\x1b]0;x\x07",
    "é",
    "\u202eevil",
    "-x",
    "\\",
    "!",
    "{lo}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_reads_a_quoted_word_as_the_same_text(text):
    said = subprocess.run(["bash", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True).stdout
    assert said.decode() == text
    assert shell_word(text).isprintable()


def test_a_file_name_that_is_no_utf8_keeps_its_bytes():
    said = subprocess.run(["bash", "-c", f"printf %s {shell_word(chr(0xDCFF))}"], capture_output=True, check=True)
    assert said.stdout == b"\xff"


def test_the_command_names_only_what_differs_from_its_defaults():
    assert command(Origin(("a.csv",)), "m", several=False) == (
        "gatewise replay a.csv --lo {lo} --hi {hi} --budget {budget}{by}"
    )
    origin = Origin(("-a.csv", "{b}.csv"), ("d e",), "validation", "p_true", "cost_usd", {"m": "map one.json"}, True)
    assert command(origin, "m", several=True) == (
        "gatewise replay ./-a.csv '{{b}}.csv' --model m --dataset 'd e' --split validation --signal p_true "
        "--cost cost_usd --map 'map one.json' --allow-leak --lo {lo} --hi {hi} --budget {budget}{by}"
    )
    assert by_option("hop count") == " --by 'hop count'"


def test_the_program_is_python_whatever_the_names_are():
    origin = Origin(('a"\n.csv',), ("d'e",), "test", "p_true", "cost_usd")
    slots = {"lo": 0.3, "hi": 0.7, "budget": 3, "among": among("a'b", 'x"\n')}
    for text in program(origin, "m\\", several=True).values():
        compile(text.format(**slots), "snippet", "exec")
