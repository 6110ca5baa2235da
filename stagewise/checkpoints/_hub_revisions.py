"""Checkpoints that lie apart: revisions of a hub repository, or a repository, a folder or a file a step; read ahead."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import scan_cache_dir

from stagewise.checkpoints._architectures import CONFIG
from stagewise.checkpoints._choice import joined
from stagewise.checkpoints._digest import file_sha256
from stagewise.checkpoints._folders import of_path
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._weight_files import Contents, read
from stagewise.checkpoints._weight_names import TRAINING, chosen_files, is_file, missing_shard, names_of, stem
from stagewise.checkpoints.hub import Hub, RemoteFile
from stagewise.checkpoints.names import FEW, GIVE_PARSE, REPOSITORY, Coordinates, Parse, read_names, told
from stagewise.checkpoints.sources import Entry, Source
from stagewise.checkpoints.suites import suite_of

MAIN = "main"
"""The revision that a repository shows."""

NUMBER = r"\d+(?:\.\d+)?[MBT]|\d+"
"""A revision that is a number of updates, or of tokens, as 128000 and 10.49B."""

SHA256 = 64
"""Characters of the hash that the hub gives of a large file; of a small one it gives git's own, which is shorter."""


def on_hub(hub: Hub, parse: Parse | str | None = None) -> Source:
    """Find the revisions of a repository that are checkpoints; if none is, folders or commits of its main branch."""
    commits = hub.revisions()
    readings = dict(zip(commits, read_names([*commits], parse, bare=False), strict=True))
    numbers = [name for name in commits if re.fullmatch(NUMBER, name)]
    if len(numbers) >= FEW and not any(reading.at for reading in readings.values()):
        counted = [f"tokens{name}" if name[-1] in "MBT" else name for name in numbers]
        readings |= zip(numbers, read_names(counted), strict=True)
    known = {name: at for name, reading in readings.items() if (at := reading.at) is not None}
    ignored = tuple(name for name in readings if name not in known)
    if not known:
        if MAIN in commits and (found := _in_folders(hub, parse) or _in_commits(hub, parse)) is not None:
            return found
        raise FileNotFoundError(
            f"no revision of {hub.repository} is named like a checkpoint; there are {', '.join(ignored[:8])}. Neither "
            f"are folders and commits of its main branch. If some are, a name stands for a step: {GIVE_PARSE}"
        )
    ordered = sorted(known, key=lambda name: (known[name].branch, known[name].step, name))

    lines, suite = told([(name, readings[name]) for name in ordered]), suite_of(hub.repository)
    if suite is not None and suite.faults:
        lines.append(f"known of {suite.repositories}: {suite.faults}")
    entries = _entries(hub, commits, {name: known[name] for name in ordered})
    source = dataclasses.replace(
        _source(hub, entries, lines, MAIN in commits),
        ignored=ignored,
        # Some entries are made anew: what is fetched ahead is the next one of them.
        chosen=lambda some: _entries(hub, commits, {entry.label: entry.at for entry in some}),
    )
    return joined(source, suite.join) if suite else source


def _source(hub: Hub, entries: Sequence[Entry], lines: Sequence[str], has_main: bool = True) -> Source:
    """Take entries as a source; a file beside all of them is fetched from `MAIN`."""
    suite = suite_of(hub.repository)
    return Source(
        hub.repository,
        tuple(entries),
        names=tuple(lines),
        remote=True,
        beside=lambda name: hub.fetch(MAIN, name) if has_main and name in hub.files(MAIN) else None,
        tokens_per_step=suite.tokens_per_step if suite else None,
    )


def _in_folders(hub: Hub, parse: Parse | str | None) -> Source | None:
    """Find the folders of the main branch that are checkpoints, as checkpoint-500 or checkpoints/step_1000; or its
    files, as checkpoints/model_1000.pth.
    """
    inside = hub.folders(MAIN)
    folders = {folder: dataclasses.replace(hub, folder=folder) for folder in inside if chosen_files(inside[folder])}
    folders.pop("", None)
    files = {
        f"{folder}/{name}".lstrip("/"): dataclasses.replace(hub, folder=folder, file=name)
        for folder, names in inside.items()
        for name in names
        if is_file(Path(name)) and not TRAINING.match(name) and not chosen_files([name])
    }
    for places in (folders, files):
        readings = dict(zip(places, read_names([stem(Path(each)) for each in places], parse), strict=True))
        known = {place: reading.at for place, reading in readings.items() if reading.at is not None}
        if known and (places is folders or len(known) >= FEW):
            entries = [
                dataclasses.replace(at_revision(places[place], MAIN, at), label=place)
                for place, at in _with_their_folders(known).items()
            ]
            return _source(hub, entries, told(list(readings.items())))
    return None


def _with_their_folders(known: Mapping[str, Coordinates]) -> Mapping[str, Coordinates]:
    """Take the folders that hold those of checkpoints for branches of training, where there are several."""
    inside = {folder: str(PurePosixPath(folder).parent).strip(".") for folder in known}
    if len({*inside.values()}) == 1:
        return known
    return {
        folder: at._replace(branch="-".join(filter(None, (inside[folder], at.branch)))) for folder, at in known.items()
    }


def _in_commits(hub: Hub, parse: Parse | str | None) -> Source | None:
    """Find the commits of the main branch that are checkpoints by their titles; of one step the newest."""
    titles = hub.commits()
    readings = dict(zip(titles, read_names([*titles.values()], parse, bare=False), strict=True))
    newest = {reading.at: commit for commit, reading in reversed(readings.items()) if reading.at is not None}
    entries = [at_revision(hub, commit, at) for at, commit in newest.items()]
    lines = told([(titles[commit], readings[commit]) for commit in readings])
    return _source(hub, entries, lines) if len(newest) >= FEW else None


def at_revision(hub: Hub, revision: str, at: Coordinates) -> Entry:
    """Return the checkpoint at one revision of a repository."""
    (entry,) = _entries(hub, None, {revision: at})
    return entry


def _entries(hub: Hub, commits: Mapping[str, str] | None, known: Mapping[str, Coordinates]) -> tuple[Entry, ...]:
    """Return the checkpoints at revisions; what their entries do is asked of their downloads, by the revision."""
    downloads, asked = _Downloads(hub, [*known], commits), [field.name for field in dataclasses.fields(Entry)]
    methods = {name: getattr(downloads, name) for name in asked if hasattr(downloads, name)}
    return tuple(
        Entry(revision, at, **{name: partial(method, revision) for name, method in methods.items()})
        for revision, at in known.items()
    )


class _Downloads:
    """The downloads of one series: the next while the current one is probed, the oldest deleted when space runs out."""

    def __init__(self, hub: Hub, order: list[str], commits: Mapping[str, str] | None) -> None:
        self._hub, self._order, self._commits = hub, order, commits
        self._started: dict[str, Future[list[Path]]] = {}
        self._place = -1
        self._listed: dict[str, Mapping[str, RemoteFile]] = {}
        # One worker: two downloads at once would not be faster.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="stagewise-download")

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has a worker, and downloads, of its own.
        return _Downloads, (self._hub, self._order, self._commits)

    def _files(self, revision: str) -> Mapping[str, RemoteFile]:
        if revision not in self._listed:  # the hub is asked once
            self._listed[revision] = self._hub.files(revision)
        return self._listed[revision]

    def _names(self, revision: str) -> tuple[str, ...]:
        return (self._hub.file,) if self._hub.file else chosen_files(self._files(revision))

    def _weights(self, revision: str) -> tuple[str, ...]:
        names = self._names(revision)
        if missing := missing_shard(names):
            raise FileNotFoundError(f"{self._named(revision)} has no {missing}, a shard of its weights")
        return names

    def _named(self, revision: str) -> str:
        return f"revision {revision!r} of {self._hub.repository}"

    def digest(self, revision: str) -> str | None:
        return "+".join(self._files(revision)[name].hash for name in self._weights(revision)) or None

    def config(self, revision: str) -> Mapping[str, Any] | None:
        path, name = self.file(revision, CONFIG), f"{CONFIG} of {self._named(revision)}"
        return None if path is None else read_json(path, "give `architecture`", name=name)

    def file(self, revision: str, name: str) -> Path | None:
        places = dict.fromkeys((self._hub, dataclasses.replace(self._hub, folder="")))
        return next((place.fetch(revision, name) for place in places if name in place.files(revision)), None)

    def commit(self, revision: str) -> str:
        return (self._commits or self._hub.revisions()).get(revision, "")

    def download(self, revision: str) -> int:
        missing = [name for name in self._names(revision) if not self._hub.is_cached(revision, name)]
        return sum(self._files(revision)[name].size for name in missing)

    def read(self, revision: str) -> Contents:
        """Read a revision's weights, and start to fetch the next one, if they are read one after the other."""
        started, self._started = self._started, {}
        paths = (started.get(revision) or self._worker.submit(self._fetch, revision)).result()
        place = self._order.index(revision)
        self._shrink(self._order[place : place + 2], paths)
        in_order, self._place = place == self._place + 1, place
        for following in self._order[place + 1 : place + 2] if in_order else ():
            self._started = {following: self._worker.submit(self._fetch, following)}
        return self._checked(revision, paths)

    def _checked(self, revision: str, paths: list[Path]) -> Contents:
        """Read the files if they have the hashes that the hub lists; if not, remove them from the cache."""
        try:
            for path in paths:
                if len(hash := self._files(revision)[path.name].hash) == SHA256 and file_sha256(path) != hash:
                    raise ValueError(f"{path.name} does not have the hash that the hub lists")
            return read(paths)
        except ValueError as reason:
            for path in paths:
                path.resolve().unlink(missing_ok=True)
                path.unlink(missing_ok=True)
            raise ValueError(
                f"{self._named(revision)} is incomplete or damaged ({reason}). It was removed from the cache: the same "
                "call downloads it again. If that does not help, leave its step out: `steps=`"
            ) from reason

    def _fetch(self, revision: str) -> list[Path]:
        if not (names := self._weights(revision)):
            raise FileNotFoundError(f"{self._named(revision)} holds no weights")
        return [self._hub.fetch(revision, name) for name in names]

    def _shrink(self, keep: list[str], paths: list[Path]) -> None:
        """Delete revisions but these until the cache is small enough, then files but these: of folders of one."""
        cached = scan_cache_dir(self._hub.cache)
        size, revisions = cached.size_on_disk, [revision for repo in cached.repos for revision in repo.revisions]
        kept = {revision.commit_hash for revision in revisions if not revision.refs.isdisjoint(keep)}
        for revision in sorted(revisions, key=lambda revision: revision.last_modified):
            if size > self._hub.cache_bytes and revision.commit_hash not in kept:
                strategy = cached.delete_revisions(revision.commit_hash)
                size -= strategy.expected_freed_size
                strategy.execute()
        if (self._hub.folder or self._hub.file) and size > self._hub.cache_bytes:
            files = {file.blob_path: file for revision in revisions for file in revision.files}
            for blob, file in sorted(files.items(), key=lambda item: item[1].blob_last_modified):
                if size > self._hub.cache_bytes and file.file_path not in paths:
                    size -= file.size_on_disk
                    file.file_path.unlink(missing_ok=True)
                    blob.unlink(missing_ok=True)


def one_each(
    names: Sequence[str | Path], parse: Parse | str | None = None, hub: Mapping[str, Any] | None = None
) -> Source:
    """Take checkpoints that lie apart, each under a name with its step, in any order."""
    remote = [_is_remote(name) for name in map(str, names)]
    readings = names_of([Path(name) for name in names], parse)
    rows = [(str(name), readings[Path(name)]) for name in names]
    if nameless := [(name, reading.why) for name, reading in rows if reading.at is None]:
        raise ValueError(f"the name {nameless[0][0]} has no step ({nameless[0][1]}): {GIVE_PARSE}")
    entries = tuple(place_of(name, reading.at, hub) for name, reading in rows if reading.at is not None)
    same = os.path.commonprefix([name for name, _ in rows])  # noqa: RUF071 - letter by letter; then without the step
    name = re.sub(r"([-_./]*(step|checkpoint|ckpt|iter)?[-_./]*\d*)$", "", same) or rows[0][0]
    return Source(name, entries, remote=any(remote), names=tuple(told(rows)))


def place_of(name: str, at: Coordinates, hub: Mapping[str, Any] | None = None) -> Entry:
    """Return the checkpoint in a folder, a file or a repository of the hub."""
    if _is_remote(name):
        return dataclasses.replace(at_revision(Hub(name, **(hub or {})), MAIN, at), label=name)
    return of_path(Path(name), at)


def _is_remote(name: str) -> bool:
    path = Path(name)
    if path.is_dir() or (path.is_file() and is_file(path)):
        return False
    if not re.fullmatch(REPOSITORY, name):
        raise FileNotFoundError(f"{name} is not there: a list names folders, files, or repositories as owner/name")
    return True
