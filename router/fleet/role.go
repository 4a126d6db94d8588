package fleet

import (
	"errors"
	"fmt"
	"slices"

	"weir/router/balance"
)

// Role says what the requests that a replica gets are for, in the words of llm-d (the label llm-d.ai/role). vLLM's are kv_producer,
// kv_consumer and kv_both.
type Role string

// The roles.
const (
	Both    Role = "both"    // it computes prompts and answers
	Decode  Role = "decode"  // as above; prefill replicas compute long prompts for it
	Prefill Role = "prefill" // it computes prompts, and answers where no other replica is left
)

// Roles are the names of all roles.
func Roles() []string { return []string{string(Both), string(Decode), string(Prefill)} }

func (r Role) pool() balance.Pool {
	if r == Prefill {
		return balance.Prefilling
	}
	return balance.Decoding
}

// checkRole reports what is wrong with the role of a source.
func (s *Source) checkRole() error {
	switch {
	case s.Role == "" || s.Role == Both:
		return nil
	case !slices.Contains(Roles(), string(s.Role)):
		return fmt.Errorf("a replica has the role %q; there are %q", s.Role, Roles())
	case s.Kind != "" && s.Kind != Weir:
		return fmt.Errorf("a replica of kind %q has the role %s; only weirs give one another their KV blocks: leave the role out, and let the engine's own router keep its pools", s.Kind, s.Role)
	case s.AdminURL == "":
		return fmt.Errorf("a replica has the role %s and no admin_url; KV blocks pass between admin listeners: give its URL", s.Role)
	}
	return nil
}

// checkRoles reports what is wrong with the roles of all sources together.
func (c *Config) checkRoles() error {
	has := func(r Role) bool { return slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Role == r }) }
	if !has(Prefill) {
		if has(Decode) {
			return fmt.Errorf("model %q has replicas with the role decode and none with prefill; give some the role prefill, or all of them both", c.Model)
		}
		return nil
	}
	var errs []error
	if !slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Role != Prefill }) {
		errs = append(errs, fmt.Errorf("model %q has replicas with the role prefill alone; give some the role decode", c.Model))
	}
	if c.Balance.Policy != balance.Prefix {
		errs = append(errs, fmt.Errorf("model %q has replicas with the role prefill and the policy %v; only the policy prefix knows what computing a prompt costs where", c.Model, c.Balance.Policy))
	}
	if len(c.Secret) == 0 {
		errs = append(errs, fmt.Errorf("model %q has replicas with the role prefill; the router has to know prompts' tokens and blocks: give the model a tokenizer, and all servers the same prefix_cache_key", c.Model))
	}
	return errors.Join(errs...)
}
