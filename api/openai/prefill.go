package openai

import (
	"strconv"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/router"
)

// A router with a pool of prefill replicas has the blocks of a long prompt computed by one of them, and the answer by another replica,
// which fetches the blocks. The prefill replica gets the request itself, and do_remote_decode in its peer's statement about the caller:
// the prompt is rendered, tokenised, admitted and computed as any other, in the tenant's name, and ends before its first token.

// wantsPrefix reports whether the request comes from a peer that has the answer computed elsewhere.
func (c *generating) wantsPrefix() bool { return c.caller.Peer && c.caller.KV.DoRemoteDecode }

// noPrefix refuses to compute a prompt alone where that cannot be done: an answer instead would be computed, and counted, twice.
func noPrefix(why string) *api.Error {
	return api.RefuseParam("prefill_unavailable", "", "the prompt's KV blocks cannot be computed alone: %s; have the whole answer computed", why)
}

// prefill computes the blocks of the job's prompt. They stay in the prefix cache as any other blocks.
func (c *generating) prefill(j *job.Job) *api.Error {
	if len(j.Prompts) != 1 || j.PromptLogprobs >= 0 {
		return noPrefix("there are several prompts, or log-probabilities of the prompt are asked for")
	}
	s := c.server
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	defer s.running.Leave()
	j.MaxTokens, j.Params.N, j.Params.Stream = 0, 1, false
	j.Copied, j.KeepsTexts, j.Arm = nil, false, router.Arm{}
	c.started = true
	g, fault := s.runner.Start(j, nil, nil, c.gone())
	if fault != nil {
		return fault
	}
	returned := false
	defer func() {
		if !returned { // a panic is on its way to the boundary that answers it
			g.Fail(internalError("panic"))
		}
		g.End()
	}()
	if fault = g.Run(); fault == nil {
		c.ctx.SetContentType("application/json")
		c.ctx.SetBody(prefilled(j, g.CachedTokens()))
	}
	returned = true
	return fault
}

// prefilled is the answer to a prompt that was computed alone, of which so many tokens were cached before: in vLLM's words what the replica
// that computes the answer is told.
func prefilled(j *job.Job, cached int) []byte {
	prompt := j.PromptTokens()
	dst := []byte(`{"kv_transfer_params":{"do_remote_prefill":true,"remote_tokens":`)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = append(dst, `,"remote_computed_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt-cached), 10)
	dst = append(dst, `},"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(cached), 10)
	return append(dst, `}}}`...)
}
