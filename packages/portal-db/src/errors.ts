/** An error as PostgREST's clients read it: always these four members. */
export interface ErrorBody {
  /** SQLSTATE, or `PGRST…`. */
  readonly code: string;
  readonly message: string;
  /** A list only where PostgREST gives one: the candidates of PGRST201. */
  readonly details: string | readonly Readonly<Record<string, string>>[] | null;
  readonly hint: string | null;
  /** HTTP status; not part of the body. */
  readonly status: number;
}
