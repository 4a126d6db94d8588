// What stages, causes and codes mean, in words.

/** What a request did in a stage. */
export const stageWords = {
  parse: "Read and checked", load: "Waited for its model to be in memory", tokenise: "Prompt made into tokens", waiting: "Waited in the queue", prefill: "Prompt computed", decode: "Answer generated",
  paused: "Paused, its KV blocks kept", preempted: "Preempted, its KV blocks given up", compute: "Computed", route: "A replica was chosen", upstream: "Asked a replica", send: "The rest was sent to the client",
};

/** What a request waits for. */
export const waits = {
  "": "", turn: "its turn: requests of tenants served less, or of higher classes, go first", slots: "a slot: max_num_seqs sequences run",
  kv_blocks: "KV blocks: the cache has no room for it", long_prefills: "other long prompts, of which few are read at once",
  tenant_share: "its tenant's share: it runs more than that while others wait", step: "the next step", model: "its model, which was being loaded",
};

/** For what a request gave its slot or its KV blocks. */
export const gave = {
  older_request: "for the next tokens of a request that is served before it", itself: "as no block was left for its own next token", higher_class: "for a request of a higher class",
  guaranteed_class: "for a request of a lower class, which has slots that it is guaranteed", tenant_share: "for a request of a tenant that has less than its share",
};

/** Why a request was refused, by code; docs/errors.md has them all. */
export const codes = {
  rate_limit_exceeded: "Its tenant has used up its quota, or its share of the waiting queue.", insufficient_quota: "Its tenant's budget of the day or month is used up.",
  deadline_unreachable: "Its deadline could not be met, by the estimate: what waits before it takes too long.", deadline_exceeded: "The time for its first token, or for the whole answer, passed.",
  server_is_overloaded: "The waiting queue, or the memory for request bodies, was full.", request_shed: "It gave its place in the waiting queue up to a request of a higher standing.",
  queue_timeout: "It waited as long as a request may.", kv_cache_exhausted: "Its KV blocks did not fit into the cache, though nothing else ran.", request_never_fits: "It needs more KV blocks than there are.",
  context_length_exceeded: "Prompt and answer are longer than the context.", content_policy_violation: "A rule of the model's policy matched in the request.", client_closed_request: "The client hung up first.",
  client_too_slow: "The client read more slowly than the model wrote.", model_not_found: "There is no such model.", model_loading: "Its model was not in memory yet.", upstream_unavailable: "The servers behind the model did not answer, or not to the end.",
  no_replica: "None of the servers behind the model takes requests.", no_replica_in_region: "No server that takes requests is in a region where the tenant's data stays.", server_shutting_down: "The server was stopping.",
  constraint_failed: "The grammar of the answer allowed no further token and no end.", format_too_complex: "The answer's format takes more work or memory than there is for it.", internal_error: "A fault of the server; its log says more.",
  invalid_value: "A field of the request has a value that it cannot have.", unsupported_parameter: "A field of the request is not served.", invalid_json: "Its body is no JSON object of the right form.",
  insufficient_scope: "Its key may not do this.", engine_unavailable: "The engine had stopped.", identity_unavailable: "Who called could not be verified.", quota_unavailable: "Its quota could not be verified.",
};
