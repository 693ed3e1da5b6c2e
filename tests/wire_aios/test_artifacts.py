from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.wire_aios.client import AiosClient

PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "## 价格对比结果\n\n京东价格: ¥299\n淘宝价格: ¥289"},
    {"type": "data", "data": {"jd": {"price": 299, "url": "https://jd.com/..."}, "n": [1, None]}},
    {"type": "file", "file": {"uri": "file:///tmp/a.bin", "mime_type": "a/b", "size": 12}},
    {"type": "image", "image": {"uri": "file:///tmp/chart.png", "mime_type": "image/png"}},
    {"type": "audio", "audio": {"uri": "https://example.org/a.ogg", "duration_ms": 5300}},
    {"type": "video", "video": {"uri": "https://example.org/v.mp4", "duration_ms": 0}},
]


async def produced(aios: AiosClient, **members: Any) -> tuple[str, dict[str, Any]]:
    artifact = {
        "name": "价格对比报告",
        "type": "report",
        "mime_type": "application/json",
        **members,
    }
    task_id = await aios.create({"artifact": artifact})
    await aios.ended(task_id)
    (summary,) = (await aios.get(task_id))["artifacts"]
    return task_id, summary


@pytest.mark.req("R081", "R082", "R084", "R085", "R088")
async def test_an_artifact_comes_back_as_it_was_made(aios: AiosClient) -> None:
    task_id, summary = await produced(aios, parts=PARTS)
    result = await aios.call("aios/artifact.get", artifact_id=summary["id"])
    assert result.keys() == {"artifact"}
    artifact = result["artifact"]
    assert artifact["parts"] == PARTS
    assert (artifact["name"], artifact["type"]) == ("价格对比报告", "report")
    assert artifact["mime_type"] == "application/json"
    assert artifact["created_at"].endswith("Z")
    assert artifact["metadata"]["source_task"] == task_id
    assert artifact["metadata"]["version"] == 1
    assert {name: artifact[name] for name in summary} == summary


@pytest.mark.req("R085")
async def test_an_unknown_artifact_is_not_found(aios: AiosClient) -> None:
    error = await aios.refused("aios/artifact.get", artifact_id="art-none")
    assert (error.code, error.data["error_id"]) == (-32110, "AIOS-ARTIFACT-NOT-FOUND")


@pytest.mark.req("R086", "X32")
async def test_the_artifacts_of_a_task_are_listed_without_parts(aios: AiosClient) -> None:
    names = ["one", "two", "three"]
    parts = [{"type": "text", "text": "x"}]
    task_id = await aios.create(
        *({"artifact": {"name": name, "type": "data", "parts": parts}} for name in names)
    )
    await aios.ended(task_id)
    result = await aios.call("aios/artifact.list", task_id=task_id)
    assert [artifact["name"] for artifact in result["artifacts"]] == names
    assert result["total"] == 3
    assert all("parts" not in artifact for artifact in result["artifacts"])
    error = await aios.refused("aios/artifact.list", task_id="task-none")
    assert error.brief == (-32106, "Task not found")


@pytest.mark.req("R083", "X33")
@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "data": {}},
        {"type": "text", "text": "a", "data": {}},
        {"type": "image", "file": {"uri": "file:///x"}},
        {"type": "data", "data": [1]},
        {"type": "song", "song": {}},
        {},
    ],
    ids=str,
)
async def test_a_part_that_contradicts_itself_is_refused(
    aios: AiosClient, part: dict[str, Any]
) -> None:
    error = await aios.refused(
        "aios/task.create",
        capability_id="lab.script",
        arguments={"steps": [{"artifact": {"name": "x", "parts": [part]}}]},
    )
    assert error.code == -32108


@pytest.mark.req("R085")
async def test_an_artifact_of_many_megabytes_is_read_whole(aios: AiosClient) -> None:
    text = "0123456789abcdef" * 12_000
    for_each = [
        {
            "chunk": {
                "artifact_id": "big",
                "append": position > 0,
                "last": position == 29,
                "parts": [{"type": "text", "text": text}],
            }
        }
        for position in range(3)
    ]
    for_each[-1]["chunk"]["last"] = True
    task_id = await aios.create(*for_each)
    assert (await aios.ended(task_id))["status"] == "completed"
    result = await aios.call("aios/artifact.get", artifact_id="big", task_id=task_id)
    assert [part["text"] for part in result["artifact"]["parts"]] == [text] * 3
