import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default async function (pi: ExtensionAPI) {
  if (!inside()) return;
  let described;
  try {
    described = await describe();
  } catch (error) {
    // Pi ends when an extension fails to load; that is too much for a program that has been moved.
    pi.on("session_start", (_event, ctx) => ctx.ui.notify(error.message, "warning"));
    return;
  }
  const { tools, contract } = described;
  const lower = tools.map((tool) => tool.name).filter(whenActive);
  const tails = new Map();
  let registered = false;
  let active = false;

  const wire = (tool) => ({
    name: tool.name,
    label: tool.title,
    description: tool.description,
    parameters: tool.inputSchema,
    annotations: tool.annotations,
    executionMode: tool.annotations.destructiveHint ? "sequential" : "parallel",
    // 0.73 makes an empty string of a null.
    prepareArguments: (args) => Object.fromEntries(Object.entries(args ?? {}).filter(([, value]) => value !== null)),
    async execute(_id, args, signal) {
      const wakes = !active && ofLink(tool.name);
      if (wakes) {
        active = true;
        pi.setActiveTools([...new Set([...pi.getActiveTools(), ...lower])]);
      }
      const { content, structuredContent } = await call(tails, tool.name, args, signal);
      // The prompt that is being answered was made without the contract.
      if (wakes && !structuredContent?.contract) content.push({ type: "text", text: contract });
      return { content, details: structuredContent ?? {} };
    },
  });

  pi.on("session_start", () => {
    if (!registered) {
      // Not while loading: Pi would end if another copy, in the project or an older one, had these names.
      const taken = pi.getAllTools().map((tool) => tool.name);
      if (tools.some((tool) => taken.includes(tool.name))) return;
      for (const tool of tools) pi.registerTool(wire(tool));
      registered = true;
    }
    active = false;
    pi.setActiveTools(pi.getActiveTools().filter((name) => !lower.includes(name)));
    bootstrap();
  });

  pi.on("before_agent_start", (event) => {
    if (active) return { systemPrompt: `${event.systemPrompt}\n\n${contract}` };
  });
}
