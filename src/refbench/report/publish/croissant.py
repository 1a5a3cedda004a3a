"""The dataset described in Croissant 1.0 (JSON-LD): files with their hashes, and the columns of what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refbench import __version__
from refbench.report.publish.pictures import TEXTS

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification gives."""
_KINDS = {".jsonl": "application/jsonlines", ".parquet": "application/x-parquet", ".json": "application/json"}
_TEXT, _NUMBER, _WHOLE = "sc:Text", "sc:Float", "sc:Integer"
_SCORES = {
    **dict.fromkeys(("case", "model", "judge", "metric", "protocol"), _TEXT),
    "seed": _WHOLE,
    "score": _NUMBER,
    "total": _NUMBER,
}
_TABLE = {
    **dict.fromkeys(("model", "judge", "protocol", "metric"), _TEXT),
    "value": _NUMBER,
    **dict.fromkeys(("n_cases", "n_seeds", "n_expected", "n_scored"), _WHOLE),
}


def croissant_of(name: str, title: str, files: Mapping[str, str], published: str) -> dict[str, Any]:
    """The description; `files` has the hash of each file by its name, `published` is the date."""
    described = [path for path in sorted(files) if path.endswith(tuple(_KINDS))]
    records = [_records("scores", "scores.jsonl", _SCORES), _records("table", "table.jsonl", _TABLE)]
    for number, path in enumerate(path for path in described if path.endswith(".parquet")):
        columns = {**dict.fromkeys(TEXTS, _TEXT), "seed": _WHOLE}
        records.append(_records("pictures" if number == 0 else f"pictures-{number + 1}", path, columns))
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": f"{title}: models' outputs, judges' replies, scores and a table, by RefBench {__version__}.",
        "license": "pictures.jsonl states the licence of each picture",
        "url": "README.md",
        "version": "1.0.0",
        "datePublished": published,
        "citeAs": f"RefBench {__version__}: {title}",
        "distribution": [_file(path, files[path]) for path in described],
        "recordSet": records,
    }


def _file(path: str, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "encodingFormat": next(kind for end, kind in _KINDS.items() if path.endswith(end)),
        "sha256": sha256,
    }


def _records(name: str, path: str, columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "dataType": kind,
                "source": {"fileObject": {"@id": path}, "extract": {"column": column}},
            }
            for column, kind in columns.items()
        ],
    }
