import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { AdminFlags } from "./admin-client.ts";

function withAdmin(command: Command): Command {
  const otherwise = "else TURNPIKE_ADMIN_URL, else admin.host and admin.port of the configuration";
  return withJson(withConfig(command.option("--admin <url>", `admin API of the gateway (${otherwise})`)));
}

/** `turnpike relay`: what an operator sees and changes of a running gateway. */
export function relayCommand(context: CommandContext): Command {
  const command = new Command("relay")
    .summary("watch and steer the relay of a running gateway")
    .description(
      "Watches and steers the relay of a running gateway, over its admin API (admin.port). The token is " +
        "TURNPIKE_ADMIN_TOKEN, else admin.token of the configuration.",
    );
  const actions = () => import("./action.ts");
  const add = (
    name: string,
    args: string,
    description: string,
    run: (args: readonly (string | undefined)[], flags: AdminFlags) => Promise<void>,
  ): void => {
    const inner = new Command(name).description(description);
    for (const [arg, says] of ARGUMENTS) if (args.includes(arg)) inner.argument(arg, says);
    inner.action(async (...given: unknown[]) => {
      const values = given.slice(0, -2).map((value) => (typeof value === "string" ? value : undefined));
      await run(values, inner.opts());
    });
    command.addCommand(withAdmin(inner));
  };
  add("suppliers", "[service]", "Shows suppliers with scores, breakers and heights.", async ([service], flags) => {
    await (await actions()).suppliers(service, flags, context);
  });
  for (const [name, description] of STEPS) {
    add(name, "<service> <operator>", description, async ([service = "", operator = ""], flags) => {
      await (await actions()).change(name === "forgive" ? "reset-score" : name, service, operator, flags, context);
    });
  }
  add(
    "flags",
    "[flag] [state]",
    "Shows the relay's flags, or switches one on or off.",
    async ([flag, state], flags) => {
      await (await actions()).flags(flag, state, flags, context);
    },
  );
  for (const [name, description] of PURGES) {
    add(name, "[service]", description, async ([service], flags) => {
      await (await actions()).purgeCache(service, flags, context);
    });
  }
  add("reload", "", "Has the gateway read its configuration again, without dropping a request.", async (_, flags) => {
    await (await actions()).reload(flags, context);
  });
  return command;
}

const ARGUMENTS = [
  ["<service>", "id of the service"],
  ["<operator>", "operator, as the configuration names it"],
  ["[service]", "id of the service; without one, all"],
  ["[flag]", "cache, hedging, cross_validation or log_splitting; without one, all are shown"],
  ["[state]", "on or off"],
] as const;

const STEPS = [
  ["drain", "Takes an operator's suppliers out of a service, until they are put back or the gateway restarts."],
  ["undrain", "Puts an operator's suppliers back into a service."],
  ["reset-score", "Resets the scores and breakers of an operator's suppliers."],
  ["forgive", "Old name of `relay reset-score`; goes with the next version."],
] as const;

const PURGES = [
  ["purge-cache", "Purges the cached responses of a service, or of all."],
  ["forget", "Old name of `relay purge-cache`; goes with the next version."],
] as const;
