/** What a fragment costs beside its bytes while it is kept. */
const FRAGMENT_BYTES = 128;

/**
 * Follows the frames of a client (RFC 6455 §5.2) to count the bytes that are kept of an incomplete message. ws bounds each
 * message, but does not report how much of it has arrived.
 */
export class Inbound {
  #heldBytes = 0;
  #ticks = 0;
  /** Bytes of the frame that is read now. */
  #frameBytes = 0;
  #firstByte = 0;
  /** Up to the mask's end. */
  #headBytes = 2;
  #payloadBytes = 0;

  /** Bytes that are kept of the message that is under way; 0 between two messages. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Ticks that the message has been under way, this one included. */
  tick(): number {
    this.#ticks = this.#heldBytes === 0 ? 0 : this.#ticks + 1;
    return this.#ticks;
  }

  /** Takes what was received. */
  read(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const left = this.#headBytes + this.#payloadBytes - this.#frameBytes;
      const isHead = this.#frameBytes < this.#headBytes;
      if (isHead) this.#readHead(chunk[at] ?? 0);
      const count = isHead ? 1 : Math.min(left, chunk.length - at);
      at += count;
      this.#frameBytes += count;
      this.#heldBytes += count;
      if (this.#frameBytes === this.#headBytes + this.#payloadBytes) this.#endFrame();
    }
  }

  #readHead(byte: number): void {
    const at = this.#frameBytes;
    if (at === 0) this.#firstByte = byte;
    else if (at === 1) {
      const length = byte & 0x7f;
      const lengthBytes = length === 127 ? 8 : length === 126 ? 2 : 0;
      // All frames of clients have a mask of 4 bytes; ws ends those that send another.
      this.#headBytes = 2 + lengthBytes + 4;
      this.#payloadBytes = lengthBytes === 0 ? length : 0;
    } else if (at < this.#headBytes - 4) this.#payloadBytes = this.#payloadBytes * 256 + byte;
  }

  #endFrame(): void {
    const isControl = (this.#firstByte & 0x08) !== 0;
    const isLast = (this.#firstByte & 0x80) !== 0;
    // Control frames may stand between the fragments of a message, and are no part of it.
    if (isControl) this.#heldBytes -= this.#frameBytes;
    else if (!isLast) this.#heldBytes += FRAGMENT_BYTES;
    else {
      this.#heldBytes = 0;
      this.#ticks = 0;
    }
    this.#frameBytes = 0;
    this.#headBytes = 2;
    this.#payloadBytes = 0;
  }
}
