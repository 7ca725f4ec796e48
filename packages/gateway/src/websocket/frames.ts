import type { SharedEvent } from "@turnpike/relay";

/** Makes the bytes of one client's event: the supplier's own, with the id that this client knows. */
export type EventFrame = (event: SharedEvent, id: string) => Buffer;

const EVM_HEAD = '{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"';
const EVM_MIDDLE = '","result":';
const ID_LENGTH = 34;

/**
 * Frames of `eth_subscription`. All ids are of one length, so that the text is made once for all clients and copied
 * for each.
 */
export function createEvmFrames(): EventFrame {
  let last: SharedEvent | undefined;
  let template = Buffer.alloc(0);
  return (event, id) => {
    if (event !== last) {
      template = Buffer.from(`${EVM_HEAD}${"0".repeat(ID_LENGTH)}${EVM_MIDDLE}${event.raw}}}`);
      last = event;
    }
    const frame = Buffer.allocUnsafe(template.length);
    template.copy(frame);
    frame.write(id, EVM_HEAD.length, ID_LENGTH, "latin1");
    return frame;
  };
}

/** Frames of CometBFT: an event has the id of the call that subscribed. */
export function createCometFrames(): EventFrame {
  let last: SharedEvent | undefined;
  let tail = Buffer.alloc(0);
  return (event, id) => {
    if (event !== last) {
      tail = Buffer.from(`,"result":${event.raw}}`);
      last = event;
    }
    return Buffer.concat([Buffer.from(`{"jsonrpc":"2.0","id":${id}`), tail]);
  };
}
