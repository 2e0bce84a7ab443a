/** HTTP requests. Every failure becomes an `ApiError`. */

const KEY = "api-key";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** API key, stored until the tab is closed and sent only in the `Authorization` header. */
export const key = {
  get: (): string | null => sessionStorage.getItem(KEY),
  set: (value: string): void => sessionStorage.setItem(KEY, value),
  /** Called when the server rejects the key or requires one. */
  onRejected: (): void => {},
};

/** Sends a request with the API key. Throws an `ApiError` for unsuccessful responses. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const secret = key.get();
  if (secret !== null) headers.set("Authorization", `Bearer ${secret}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, "unreachable", "The server is unreachable.", null);
  }
  if (answer.status === 401) key.onRejected();
  if (!answer.ok) throw await toApiError(answer);
  return answer;
}

/** Reads the message of an error response: `{"error": {"message"}}`, or `{"detail"}` in LangGraph's API. */
async function toApiError(answer: Response): Promise<ApiError> {
  const body: unknown = await answer.json().catch(() => null);
  const { error, detail } = (body ?? {}) as { error?: { code?: string; message?: string }; detail?: string };
  return new ApiError(
    answer.status,
    error?.code ?? "http",
    error?.message ?? detail ?? `The server answered ${answer.status} ${answer.statusText}.`.replace(" .", "."),
    answer.headers.get("x-request-id"),
  );
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, signal ? { signal } : {});
  return (await answer.json()) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, jsonRequest("POST", body, signal));
  return (await answer.json()) as T;
}

/** Returns a request with a JSON body. */
export function jsonRequest(method: string, body: unknown, signal?: AbortSignal): RequestInit {
  const headers = { "Content-Type": "application/json" };
  return { method, headers, body: JSON.stringify(body), ...(signal && { signal }) };
}
