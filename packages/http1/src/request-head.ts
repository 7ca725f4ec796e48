/** What a {@link RequestHead} is made of. */
export interface RequestHeadParts {
  readonly method: "GET" | "POST";
  /** Path and query. */
  readonly path: string;
  /** Host and port as in a URL; a `host` among the headers takes its place. */
  readonly host: string;
  /** Sent in this order and spelling. */
  readonly headers: Readonly<Record<string, string>>;
}

const PATH = /^\/[\x21-\x7e\x80-\xff]*$/;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Fields of the connection and of the body's length, which are the client's own. */
const OWN_FIELDS = new Set(["content-length", "transfer-encoding", "keep-alive", "upgrade", "expect"]);

/**
 * Beginning of a request, to be made once and sent many times: all but the body's length, which is written with the
 * body.
 */
export class RequestHead {
  readonly method: "GET" | "POST";
  /** Request line and field lines, one character a byte. */
  readonly text: string;
  /** True: the connection is closed after the response, as the headers ask for it. */
  readonly isLast: boolean;

  private constructor(method: "GET" | "POST", text: string, isLast: boolean) {
    this.method = method;
    this.text = text;
    this.isLast = isLast;
  }

  /** Undefined when the parts would be no head, or say what is the client's to say, such as a length of the body. */
  static of({ method, path, host, headers }: RequestHeadParts): RequestHead | undefined {
    if (!PATH.test(path)) return undefined;
    let hostValue = host;
    let lines = "";
    let isLast = false;
    for (const [name, value] of Object.entries(headers)) {
      const lower = name.toLowerCase();
      if (!NAME.test(name) || !VALUE.test(value) || OWN_FIELDS.has(lower)) return undefined;
      if (lower === "host") {
        hostValue = value;
        continue;
      }
      if (lower === "connection") {
        const word = value.toLowerCase();
        if (word !== "close" && word !== "keep-alive") return undefined;
        isLast ||= word === "close";
      }
      lines += `${name}: ${value}\r\n`;
    }
    if (!VALUE.test(hostValue)) return undefined;
    return new RequestHead(method, `${method} ${path} HTTP/1.1\r\nhost: ${hostValue}\r\n${lines}`, isLast);
  }
}
