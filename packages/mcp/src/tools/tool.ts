import type { CallToolResult, McpServer, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import { z } from "zod";
import { describing, readArguments } from "../arguments.ts";
import { errorResult } from "../failure.ts";
import type { ToolModules } from "../types.ts";

/** One tool: its description for a model, and its action. */
export interface ToolSpec<Input extends z.ZodObject, Output extends z.ZodType> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: Input;
  readonly output: Output;
  readonly annotations: ToolAnnotations;
  /** `onDelivered` calls back when the result has been handed over to the client's connection. */
  run(args: z.output<Input>, signal: AbortSignal, onDelivered: (callback: () => void) => void): Promise<CallToolResult>;
}

/** Registers a tool. Its arguments are checked here, and what it throws becomes a tool error. */
export function addTool<Input extends z.ZodObject, Output extends z.ZodType>(
  server: McpServer,
  modules: Pick<ToolModules, "log" | "stopping" | "deliveries">,
  spec: ToolSpec<Input, Output>,
): void {
  const { name, title, description, annotations } = spec;
  server.registerTool(
    name,
    {
      title,
      description,
      inputSchema: describing(z.strictObject(spec.input.shape)),
      outputSchema: describing(spec.output),
      annotations: { title, ...annotations },
    },
    async (given: unknown, context: ServerContext) => {
      const { id, signal } = context.mcpReq;
      const signals = [signal, ...(modules.stopping === undefined ? [] : [modules.stopping])];
      try {
        return await spec.run(readArguments(spec.input, given), AbortSignal.any(signals), (callback) =>
          modules.deliveries.onDelivered(id, signal, callback),
        );
      } catch (error) {
        return errorResult(error, undefined, modules.log);
      }
    },
  );
}
