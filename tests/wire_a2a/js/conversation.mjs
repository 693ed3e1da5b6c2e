// A whole conversation of the official JavaScript client over one binding. Prints what it saw.
// node conversation.mjs URL TOKEN BINDING [PUSH_URL]
import {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskPushNotificationConfig,
  TaskState,
} from "@a2a-js/sdk";
import {
  ClientFactory,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const [url, token, binding, pushUrl] = process.argv.slice(2);
const options = { serviceParameters: { Authorization: `Bearer ${token}` } };
const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory()],
  preferredTransports: [binding],
});
const client = await factory.createFromUrl(url);
const seen = { binding: client.transport.protocolName };

let counter = 0;
function request(parts, message = {}, configuration = undefined) {
  counter += 1;
  return SendMessageRequest.fromJSON({
    tenant: "lab.script",
    message: { messageId: `js-${counter}`, role: "ROLE_USER", parts, ...message },
    configuration,
  });
}
const script = (...steps) => [{ data: { steps } }];
const state = (task) => TaskState[task.status.state];

async function stream(items, begun = () => {}) {
  const kinds = [];
  let task;
  for await (const item of items) {
    begun();
    const { $case, value } = item.payload;
    if ($case === "task") task = value;
    kinds.push($case === "statusUpdate" ? TaskState[value.status.state] : $case);
  }
  return { kinds, task };
}

// Streaming with an artifact in chunks, up to a question.
const text = (words) => ({ type: "text", text: words });
const asked = await stream(
  client.sendMessageStream(
    request(
      script(
        { message: { text: "working on it" } },
        { chunk: { artifact_id: "a", name: "n", append: false, last: false, parts: [text("one")] } },
        { chunk: { artifact_id: "a", append: true, last: true, parts: [text("two")] } },
        { ask: { prompt: "go on?" } },
      ),
    ),
    options,
  ),
);
seen.asked = asked.kinds;
const { id, contextId } = asked.task;

// The answer, followed by a subscription that was open before.
let following;
await new Promise((begun) => {
  following = stream(
    client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }), options),
    begun,
  );
});
const answered = await client.sendMessage(
  request([{ text: "yes" }], { taskId: id, contextId }),
  options,
);
seen.answered = state(answered);
seen.followed = (await following).kinds;
const task = await client.getTask(GetTaskRequest.fromJSON({ id, historyLength: 10 }), options);
seen.texts = task.artifacts[0].parts.map((part) => part.content.value);
seen.result = task.artifacts[1].parts[0].content.value;
seen.history = task.history.map((message) => message.parts[0].content.$case);

// Push, before the task can start, and cancel.
const configuration = { returnImmediately: true };
if (pushUrl) {
  configuration.taskPushNotificationConfig = TaskPushNotificationConfig.toJSON(
    TaskPushNotificationConfig.fromJSON({ url: pushUrl, token: "js-token" }),
  );
}
const running = await client.sendMessage(
  request(script({ sleep_ms: 60000 }), {}, configuration),
  options,
);
const canceled = await client.cancelTask(CancelTaskRequest.fromJSON({ id: running.id }), options);
seen.canceled = state(canceled);
seen.canceledId = running.id;

const page = await client.listTasks(
  ListTasksRequest.fromJSON({ contextId, pageSize: 5 }),
  options,
);
seen.listed = page.tasks.map((one) => one.id);
seen.id = id;

try {
  await client.getTask(GetTaskRequest.fromJSON({ id: "task-unknown" }), options);
} catch (error) {
  seen.error = error.constructor.name;
}
console.log(JSON.stringify(seen));
process.exit(0);
