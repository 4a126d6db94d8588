"""What differs where the library is ik_llama.cpp, the fork that is made for processors. Structures are those of its llama.h at 8337e4cd."""


class Ik:
    """Flash attention, fused experts and graphs that are used again are its own defaults."""

    structures = """
struct llama_model_params { const char *devices; int32_t n_gpu_layers, mla; int split_mode; int32_t main_gpu, max_gpu, ncmoe;
  int type_k, type_v, idx_type_k; uint32_t max_ctx_size; int32_t n_seq_max, n_ubatch, amb, fit_margin; bool fit; int32_t worst_graph_tokens;
  int type_k_first, type_k_last, type_v_first, type_v_last; int32_t n_k_first, n_k_last, n_v_first, n_v_last; int extra_output_type;
  const float *tensor_split; const int *fit_margin_array; const char *rpc_servers; void *progress, *progress_data, *kv_overrides, *overrides;
  bool vocab_only, use_mmap, use_mlock, check_tensors, repack_tensors, use_thp, validate_quants, merge_qkv, merge_up_gate_exps, mtp, dry_run;
  bool flash_attn, defer_experts, swa_compress; };
struct llama_context_params { uint32_t seed, n_ctx, n_batch, n_ubatch, n_seq_max, n_threads, n_threads_batch;
  int32_t max_extra_alloc, worst_case_tokens; int rope_scaling_type, pooling_type, attention_type;
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow; uint32_t yarn_orig_ctx;
  float defrag_thold; void *eval, *eval_data; int type_k, type_v, idx_type_k, type_reduce, type_graph_attn;
  int type_k_first, type_k_last, type_v_first, type_v_last; int32_t n_k_first, n_k_last, n_v_first, n_v_last;
  bool logits_all, embeddings, offload_kqv, flash_attn; int mla_attn, attn_max_batch;
  bool fused_moe_up_gate, grouped_expert_routing, fused_up_gate, fused_mmad, rope_cache, graph_reuse, dsa, fused_idx_topk, swa_compress;
  int dsa_top_k, min_experts; float thresh_experts; bool only_active_experts, prefetch_experts; int prefetch_experts_threads;
  bool k_cache_hadamard, v_cache_hadamard, split_mode_graph_scheduling, scheduler_async, mtp; int mtp_op_type;
  void *abort, *abort_data, *offload_policy, *cuda_params; };
typedef struct { int32_t n_tokens; int32_t *token; float *embd; int32_t *pos, *n_seq_id; int32_t **seq_id; int8_t *logits;
  int32_t all_pos_0, all_pos_1, all_seq_id; } llama_batch;
void llama_free_model(void *); void llama_kv_cache_clear(void *);
size_t llama_state_seq_get_size(void *, int32_t, uint32_t);
size_t llama_state_seq_get_data(void *, uint8_t *, size_t, int32_t, uint32_t);
size_t llama_state_seq_set_data(void *, const uint8_t *, size_t, int32_t, uint32_t);
"""
    state = (0,)  # what its functions of a sequence's state take more

    @staticmethod
    def weights(p, repack, whole_windows):
        p.repack_tensors, p.use_mmap, p.swa_compress = repack, not repack, not whole_windows  # weights are repacked in memory of their own

    @staticmethod
    def attention(c, flash, whole_windows):
        c.flash_attn, c.swa_compress = True, not whole_windows
        c.type_k = c.type_v = max(c.type_k, 1)  # it has no cache of floats: f16 at least

    @staticmethod
    def clear(llama, context):
        llama.llama_kv_cache_clear(context)

    @staticmethod
    def free(llama, model):
        llama.llama_free_model(model)
