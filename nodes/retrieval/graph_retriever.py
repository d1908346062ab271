"""A search graph in the place of a retriever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable  # noqa: TC002  # pydantic reads it at run time
from pydantic import ConfigDict

from .result import retrieval_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.runnables import RunnableConfig

__all__ = ["GraphRetriever", "as_retriever"]


def as_retriever(graph: Runnable[Any, Any], *, name: str = "retrieval") -> GraphRetriever:
    """Return a LangChain retriever that runs a search graph for each query.

    Its documents have `id`, `source`, `heading`, `score`, `similarity` and `sub_query` in their metadata.

    Args:
        graph: Of `build_retrieval_graph`. In a node of another graph its checkpoints are that graph's; one with a
            checkpointer of its own needs a thread in the config of each call.
        name: How traces and events name it.
    """
    return GraphRetriever(graph=graph, name=name)


class GraphRetriever(BaseRetriever):
    """Runs a search graph and returns its passages; see `as_retriever`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    graph: Runnable[Any, Any]

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Return the passages for a query; the graph runs with `configurable` of the config."""
        return super().invoke(input, config, **{**_thread(config), **kwargs})

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Async twin of `invoke`."""
        return await super().ainvoke(input, config, **{**_thread(config), **kwargs})

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, configurable: dict[str, Any] | None = None
    ) -> list[Document]:
        config = _config(run_manager.get_child(), configurable)
        return _documents(self.graph.invoke({"task": query}, config))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        configurable: dict[str, Any] | None = None,
    ) -> list[Document]:
        config = _config(run_manager.get_child(), configurable)
        return _documents(await self.graph.ainvoke({"task": query}, config))


def _thread(config: RunnableConfig | None) -> dict[str, Any]:
    configurable = dict((config or {}).get("configurable") or {})
    return {"configurable": configurable} if "thread_id" in configurable else {}


def _config(callbacks: Any, configurable: dict[str, Any] | None) -> RunnableConfig:
    config: RunnableConfig = {"callbacks": callbacks}
    if configurable:
        config["configurable"] = configurable
    return config


def _documents(output: Mapping[str, Any]) -> list[Document]:
    return [
        Document(found.text, metadata=found.model_dump(exclude={"text"})) for found in retrieval_result(output).results
    ]
