// A page that uses LangChain's hook as its users do: nothing here knows that the server is redraft.
import { useStream } from "@langchain/react";
import { Client } from "langgraph-sdk-2";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const asked = new URLSearchParams(location.search);
const apiUrl = asked.get("api");
const apiKey = asked.get("key") ?? undefined;

function App() {
  const [threadId, setThreadId] = useState(asked.get("thread"));
  const [task, setTask] = useState("");
  const [forkFrom, setForkFrom] = useState(undefined);
  const [run, setRun] = useState("");
  const stream = useStream({
    apiUrl, apiKey, assistantId: asked.get("assistant"), threadId, onThreadId: setThreadId,
    onCreated: ({ runId }) => setRun(runId), // before that the hook stops nothing on the server
  });
  const fork = async () => {
    const history = await new Client({ apiUrl, apiKey }).threads.getHistory(threadId, { limit: 50 });
    setForkFrom(history.find((state) => state.next.includes("refine")).checkpoint.checkpoint_id);
  };
  return (
    <main>
      <input id="task" aria-label="Task" value={task} onChange={(event) => setTask(event.target.value)} />
      <button id="go" onClick={() => stream.submit({ task })}>Go</button>
      <button id="place" onClick={fork}>Find a place to fork</button>
      <button id="fork" onClick={() => stream.submit(null, { forkFrom })}>Fork</button>
      <button id="stop" onClick={() => stream.stop()}>Stop</button>
      <p id="thread">{threadId}</p>
      <p id="run">{run}</p>
      <p id="state">{stream.isLoading ? "at work" : "at rest"}</p>
      <p id="place-found">{forkFrom}</p>
      <p id="answer">{stream.values.answer}</p>
      <p id="reason">{stream.values.stop_reason}</p>
      <p id="error">{stream.error ? String(stream.error.message ?? stream.error) : ""}</p>
      <ol id="messages">{stream.messages.map((message) => <li key={message.id}>{message.text}</li>)}</ol>
      {stream.interrupt && (
        <form>
          <p id="draft">{stream.interrupt.value.draft}</p>
          <button id="accept" type="button" onClick={() => stream.respond({ action: "accept" })}>Accept</button>
        </form>
      )}
    </main>
  );
}

createRoot(document.getElementById("app")).render(<App />);

// What else the client of today asks a server for, called from the test.
window.client = new Client({ apiUrl, apiKey });
window.joined = async (threadId, runId, streamMode) => {
  const events = [];
  for await (const part of window.client.runs.joinStream(threadId, runId, { streamMode })) events.push(part.event);
  return events;
};
window.streamed = async (assistantId, input, streamMode) => {
  const events = new Set();
  for await (const part of window.client.runs.stream(null, assistantId, { input, streamMode })) events.add(part.event);
  return [...events];
};
