"""A repository of the hub: its revisions, their files, and downloads into a cache of their own."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import HTTPError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import disable_progress_bars, get_session

from stagewise.config import line_of

CACHE = Path(os.path.expanduser("~/.cache/stagewise/hub"))
CACHE_BYTES = 20 * 10**9
"""The cache is emptied, the longest unused revision first, until it is below this size; two revisions always stay."""

ANSWER_SECONDS = 10
"""Seconds without data after which the hub counts as unreachable; huggingface_hub's own limit for downloads."""


class RemoteFile(NamedTuple):
    """A file of a revision: its hash as the hub gives it, and its size in bytes."""

    hash: str
    size: int


@dataclasses.dataclass(frozen=True)
class Hub:
    """A repository, and where its files are kept.

    Every request raises an OSError where the hub does not answer, or has no such repository, revision or file.

    Args:
        repository: "owner/name".
        cache: folder for the downloads; its own, since revisions are deleted from it.
        cache_bytes: the size that it stays below.
        endpoint: of the hub; None for huggingface_hub's default (the variable HF_ENDPOINT).
        folder: in the repository, whose files these are; "" for the repository's own.
        file: in the folder, which alone holds the weights; "" where those do that are named so.
    """

    repository: str
    cache: Path = CACHE
    cache_bytes: int = CACHE_BYTES
    endpoint: str | None = None
    folder: str = ""
    file: str = ""

    def revisions(self) -> dict[str, str]:
        """Return the branches and tags, each with the commit that it stands for now."""
        with self._explained("list the revisions of"):
            refs = self._api().list_repo_refs(self.repository)
            return {ref.name: ref.target_commit for ref in (*refs.branches, *refs.tags)}

    def commits(self) -> dict[str, str]:
        """Return the commits of the main branch, the newest first, each with the title of its message."""
        with self._explained("list the commits of"):
            return {commit.commit_id: commit.title for commit in self._api().list_repo_commits(self.repository)}

    def folders(self, revision: str) -> dict[str, list[str]]:
        """Return the folders of a revision, each with the names of the files in it."""
        inside: dict[str, list[str]] = {}
        for file in self._tree(revision, "folders", recursive=True):
            folder, _, name = file.path.rpartition("/")
            inside.setdefault(folder, []).append(name)
        return inside

    def files(self, revision: str) -> dict[str, RemoteFile]:
        """Return the files of a revision by their names: nothing is downloaded."""
        return {
            file.path.rpartition("/")[2]: RemoteFile(file.lfs.sha256 if file.lfs else file.blob_id, file.size)
            for file in self._tree(revision, "files", path_in_repo=self.folder or None)
        }

    def _tree(self, revision: str, what: str, **where: Any) -> list[Any]:
        with self._explained(f"list the {what} of revision {revision!r} of"):
            tree = self._api().list_repo_tree(self.repository, revision=revision, **where)
            return [each for each in tree if hasattr(each, "blob_id")]

    def is_cached(self, revision: str, name: str) -> bool:
        """Whether a file was downloaded before, and is still there."""
        cached = try_to_load_from_cache(self.repository, self._path(name), cache_dir=self.cache, revision=revision)
        return isinstance(cached, str)

    def fetch(self, revision: str, name: str) -> Path:
        """Download a file, unless it is in the cache."""
        disable_progress_bars()
        where = {"revision": revision, "cache_dir": self.cache, "endpoint": self.endpoint}
        with self._explained(f"download {name} of revision {revision!r} of"):
            return Path(hf_hub_download(self.repository, self._path(name), **where))

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _api(self) -> Any:
        return HfApi(endpoint=self.endpoint)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        failure, hooks = f"could not {what} {self.repository}", get_session().event_hooks["request"]
        hooks.append(_limit)
        try:
            yield
        except RevisionNotFoundError as reason:
            raise FileNotFoundError(f"{failure}: the repository has no such revision") from reason
        except RepositoryNotFoundError as reason:
            why = "the hub has no such repository, or it is private or gated: log in with `hf auth login`"
            raise FileNotFoundError(f"{failure}: {why}") from reason
        except (HTTPError, OSError) as reason:
            raise ConnectionError(
                f"{failure}: {line_of(reason)}. Is there a network, and is HF_HUB_OFFLINE unset? What is in "
                f"{self.cache} stays, and a second call resumes from there"
            ) from reason
        finally:
            hooks.remove(_limit)


def _limit(request: Any) -> None:
    """Give a request a time limit where huggingface_hub sets none: it would wait indefinitely for a silent hub."""
    given = {kind: each for kind, each in request.extensions.get("timeout", {}).items() if each is not None}
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), ANSWER_SECONDS) | given
