import { authz, createMessage, packAny } from "@turnpike/proto";
import { setGrant } from "../../../src/modules/authz/grants.ts";
import type { Context } from "../../../src/state/context.ts";
import { bytesOfAddress } from "../../recorded-tx.ts";

const MODULES = ["application", "gateway", "proof", "service", "session", "shared", "supplier", "tokenomics"];

/** Grants the parameter messages of all modules, as the recorded genesis does. */
export function grantsOfType(ctx: Context, granter: string, grantee: string): void {
  const who = { granter: bytesOfAddress(granter), grantee: bytesOfAddress(grantee) };
  const expiration = { seconds: 16_725_225_600n, nanos: 0 };
  for (const name of MODULES) {
    for (const typeUrl of [`/pocket.${name}.MsgUpdateParam`, `/pocket.${name}.MsgUpdateParams`]) {
      const generic = createMessage(authz.GenericAuthorizationSchema, { msg: typeUrl });
      const authorization = packAny(authz.GenericAuthorizationSchema, generic);
      setGrant(ctx, { ...who, typeUrl }, createMessage(authz.GrantSchema, { authorization, expiration }));
    }
  }
}
