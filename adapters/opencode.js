export const HerdrLink = async () => {
  if (!inside()) return {};
  const { tools, contract } = await describe();
  bootstrap();
  // OpenCode reads its tools once: those for active sessions are reached through the gateway.
  const offered = new Map(tools.filter((tool) => !whenActive(tool.name)).map((tool) => [tool.name, tool]));
  const sessions = new Map(); // by id: whether it is active, and the ends of its latest calls
  const sessionOf = (id) => sessions.get(id) ?? sessions.set(id, { active: false, tails: new Map() }).get(id);

  const wire = ({ name, title, description, inputSchema }) => ({
    description,
    args: inputSchema.properties,
    async execute(args, { sessionID, abort, ask }) {
      const session = sessionOf(sessionID);
      if (ofLink(name)) session.active = true;
      const permission = { permission: name, patterns: [args?.action ?? "*"], always: ["*"], metadata: {} };
      const result = await call(session.tails, name, args, abort, () => ask?.(permission));
      return { title, output: result.content.map((part) => part.text).join("\n\n"), metadata: result.structuredContent ?? {} };
    },
  });

  return {
    tool: Object.fromEntries([...offered].map(([name, tool]) => [name, wire(tool)])),
    // OpenCode takes every plain argument for a required one.
    "tool.definition": async ({ toolID }, output) => {
      if (offered.has(toolID)) output.jsonSchema = offered.get(toolID).inputSchema;
    },
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      // At the end of the last part: not every model takes one more system message.
      if (sessions.get(sessionID)?.active) output.system.push([output.system.pop(), contract].filter(Boolean).join("\n\n"));
    },
    event: async ({ event }) => {
      if (event.type === "session.deleted") sessions.delete(event.properties.info?.id ?? event.properties.sessionID);
    },
  };
};
