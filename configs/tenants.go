package configs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// lists are those of the file. Each decode replaces what was there.
func (s *Sources) lists() []recordList {
	return []recordList{{"tenants", s.decodeTenants}, {"issuers", s.decodeIssuers}, {"prices", s.decodePrices}, {"brownout", s.decodeBrownout},
		{"classic", s.decodeClassic}, {"models", s.decodeModels}, {"policies", s.decodePolicies}}
}

func (s *Sources) decodeTenants(d *fileDecoder, n *yaml.Node) error {
	tenants := []tenant.Tenant{}
	var lines []*yaml.Node
	err := d.records(n, "tenants", func(n *yaml.Node, path string) error {
		t := tenant.New("")
		t.HighestClass = inference.NumClasses // not given
		err := d.record(n, path, tenantFields(&t))
		if t.HighestClass == inference.NumClasses {
			t.HighestClass = t.Class
		}
		tenants, lines = append(tenants, t), append(lines, n)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := tenant.NewDirectory(tenants); err != nil {
		return d.placed(err, lines)
	}
	s.config.Tenants = tenants
	return nil
}

// placed gives the faults of tenants the lines where those begin.
func (d *fileDecoder) placed(err error, records []*yaml.Node) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		if f := (*tenant.Fault)(nil); errors.As(e, &f) {
			e = fmt.Errorf("%s: %w", d.where(records[f.Index]), f)
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// tenantFields binds the keys of an entry of tenants.
func tenantFields(t *tenant.Tenant) []field {
	return []field{
		{key: "name", binding: bindText(&t.Name, tenant.NameForm+"; or * for all tenants that are not listed",
			func(s string) bool { return s == tenant.Rest || tenant.IsName(s) })},
		{key: "weight", binding: bindInt(&t.Weight, 1, tenant.MaxWeight, "")},
		{key: "class", binding: bindWord(&t.Class, tenant.ClassNames(), tenant.ParseClass, inference.Class.String)},
		{key: "highest_class", binding: bindWord(&t.HighestClass, tenant.ClassNames(), tenant.ParseClass, inference.Class.String)},
		{key: "models", binding: bindList(&t.Models, "the name of a model")},
		{key: "limits", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, limitFields(&t.Limits))
		}},
		{key: "model_limits", nested: func(d *fileDecoder, n *yaml.Node, path string) error { return d.modelLimits(n, path, t) }},
		{key: "first_token_timeout", binding: bindDuration(&t.FirstTokenTimeout, 0, 24*time.Hour)},
		{key: "total_timeout", binding: bindDuration(&t.TotalTimeout, 0, 24*time.Hour)},
		{key: "queue_timeout", binding: bindDuration(&t.QueueTimeout, 0, 24*time.Hour)},
		{key: "cache_group", binding: bindText(&t.CacheGroup, tenant.NameForm, tenant.IsName)},
		{key: "log_prompts", binding: bindBool(&t.LogPrompts)},
		{key: "retention", binding: bindChoice(&t.Retention, []string{tenant.RetentionDefault, tenant.RetentionNone})},
		{key: "residency", binding: bindList(&t.Residency, "the name of a region")},
		{key: "certificates", binding: bindList(&t.Certificates, "a certificate's name as uri:…, dns:…, email:… or cn:…")},
		{key: "claims", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.records(n, path, func(n *yaml.Node, path string) error {
				var c tenant.Claim
				err := d.record(n, path, claimFields(&c))
				t.Claims = append(t.Claims, c)
				return err
			})
		}},
	}
}

// keyFields binds what a key may have of its own.
func keyFields(t *tenant.KeyTerms) []field {
	return []field{
		{key: "models", binding: bindList(&t.Models, "the name of a model")},
		{key: "limits", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, limitFields(&t.Limits))
		}},
	}
}

func claimFields(c *tenant.Claim) []field {
	return []field{
		{key: "issuer", binding: bindText(&c.Issuer, "the name of an issuer", anyText)},
		{key: "claim", binding: bindText(&c.Claim, "the name of a claim", anyText)},
		{key: "value", binding: bindText(&c.Value, "the claim's value", anyText)},
	}
}

func (d *fileDecoder) modelLimits(n *yaml.Node, path string, t *tenant.Tenant) error {
	return d.records(n, path, func(n *yaml.Node, path string) error {
		var model string
		var l quota.Limits
		fields := append([]field{{key: "model", binding: bindText(&model, "the name of a model", anyText)}}, limitFields(&l)...)
		if err := d.record(n, path, fields); err != nil {
			return err
		}
		if _, twice := t.ModelLimits[model]; twice || model == "" {
			return d.errorf(n, "%s is for the model %q; it must name one that has no other entry", path, model)
		}
		if t.ModelLimits == nil {
			t.ModelLimits = make(map[string]quota.Limits)
		}
		t.ModelLimits[model] = l
		return nil
	})
}

// limitFields binds the keys of limits.
func limitFields(l *quota.Limits) []field {
	minute := func(key string, p *int64) field { return field{key: key, binding: bindLimit(p, quota.MaxPerMinute)} }
	budget := func(key string, p *int64) field { return field{key: key, binding: bindLimit(p, quota.MaxBudget)} }
	return []field{
		minute("requests_per_minute", &l.RequestsPerMinute),
		minute("tokens_per_minute", &l.TokensPerMinute),
		minute("input_tokens_per_minute", &l.InputTokensPerMinute),
		minute("output_tokens_per_minute", &l.OutputTokensPerMinute),
		minute("max_streams", &l.MaxStreams),
		minute("max_context_tokens", &l.MaxContextTokens),
		minute("max_output_tokens", &l.MaxOutputTokens),
		budget("daily_tokens", &l.DailyTokens),
		budget("monthly_tokens", &l.MonthlyTokens),
		{key: "daily_cost", binding: bindMoney(&l.DailyCost)},
		{key: "monthly_cost", binding: bindMoney(&l.MonthlyCost)},
		{key: "enforcement", binding: bindWord(&l.Enforcement, quota.EnforcementNames(), quota.ParseEnforcement, quota.Enforcement.String)},
		{key: "cut_answers", binding: bindCutAnswers(&l.Enforcement)},
	}
}

// bindCutAnswers reads the older key of strict limits.
func bindCutAnswers(e *quota.Enforcement) binding {
	cut := false
	b := bindBool(&cut)
	set := b.set
	b.set = func(s string) error {
		err := set(s)
		if cut {
			*e = quota.Strict
		}
		return err
	}
	return b
}

func (s *Sources) decodeIssuers(d *fileDecoder, n *yaml.Node) error {
	issuers := []tenant.Issuer{}
	err := d.records(n, "issuers", func(n *yaml.Node, path string) error {
		i := tenant.NewIssuer("")
		fields := issuerFields(&i)
		if err := d.record(n, path, fields); err != nil {
			return err
		}
		if err := i.Validate(); err != nil {
			return d.errorf(n, "%s: %v", path, err)
		}
		issuers = append(issuers, i)
		return nil
	})
	if err == nil {
		s.config.Issuers = issuers
	}
	return err
}

func issuerFields(i *tenant.Issuer) []field {
	algorithms := bindWords(&i.Algorithms, tenant.Algorithms)
	return []field{
		{key: "name", binding: bindText(&i.Name, tenant.NameForm, tenant.IsName)},
		{key: "url", binding: bindText(&i.URL, "a URL", anyText)},
		{key: "keys_url", binding: bindText(&i.KeysURL, "a URL", anyText)},
		{key: "audiences", binding: bindList(&i.Audiences, "a name in the claim aud")},
		{key: "tenant_claim", binding: bindText(&i.TenantClaim, "the name of a claim", anyText)},
		{key: "tenants", binding: bindList(&i.Tenants, "the name of a tenant")},
		{key: "scope_claim", binding: bindText(&i.ScopeClaim, "the name of a claim", anyText)},
		{key: "algorithms", binding: algorithms},
		{key: "client_id", binding: bindText(&i.ClientID, "what the issuer calls weir's pages", anyText)},
		{key: "client_secret_file", binding: bindText(&i.ClientSecretFile, "a file", anyText)},
		{key: "sign_in_scopes", binding: bindList(&i.SignInScopes, "a scope")},
	}
}

// sample shows the lists in the example file, commented out.
const sample = `
# Tenants: who may call. With this list, callers that no entry stands for are refused;
# an entry with the name "*" holds the settings of all tenants that are not listed.
# Everything but the name may be left out.
# tenants:
#   - name: acme
#     weight: 4 # share of the service beside other tenants', 1 to 4096; default 1
#     class: default # of requests that ask for none: interactive, default or batch
#     highest_class: interactive # the highest class that requests may ask for; default class
#     models: [llama-3.2-1b] # models that the tenant may use; default all
#     limits: # of all models together; what is left out is unlimited
#       requests_per_minute: 600
#       tokens_per_minute: 200000 # input and output together
#       input_tokens_per_minute: 150000
#       output_tokens_per_minute: 80000
#       max_streams: 16 # requests at once, streamed or not
#       max_context_tokens: 8192 # prompt and output of one choice
#       max_output_tokens: 2048 # of one choice
#       daily_tokens: 10000000 # days and months of UTC
#       monthly_tokens: 200000000
#       daily_cost: "12.50" # at the models' prices
#       monthly_cost: "250"
#       enforcement: money # which limits answers never exceed: money, strict (tokens, too) or estimate (none)
#       cut_answers: false # true: the older way to say enforcement: strict
#     model_limits: # of single models, beside those above
#       - model: llama-3.2-1b
#         requests_per_minute: 300
#     first_token_timeout: 10s # the most that requests may ask for, and the default
#     total_timeout: 5m
#     queue_timeout: 30s # how long requests may wait; at most --queue-timeout-ms
#     cache_group: acme-family # tenants of one group share prefixes of prompts
#     log_prompts: false # true: the store keeps prompts and answers, scrubbed
#     retention: default # none: no texts of the tenant are kept: no responses, replayed or cached answers, files and batches
#     residency: [eu] # regions (server.region, region of replicas) where the tenant's data stays; default everywhere
#     certificates: ["uri:spiffe://acme.example/chat"] # of clients (tls_client_ca): uri:, dns:, email: or cn:
#     claims: # tokens
#       - {issuer: login, claim: groups, value: acme-users}
#   - name: "*"
#     limits:
#       requests_per_minute: 60

# Issuers of tokens (JWT) that clients may send in place of a key.
# issuers:
#   - name: login
#     url: https://login.example # the tokens' claim iss
#     keys_url: https://login.example/jwks.json # public keys; default by discovery
#     audiences: [weir] # one of them must be in the tokens' claim aud
#     tenant_claim: org # its value names the tenant, where no tenant's claims do
#     tenants: [acme] # names that tenant_claim may have; needed where several issuers have a tenant_claim
#     scope_claim: scope # has weir:inference, weir:admin, weir:metrics; default inference only
#     algorithms: [RS256, ES256] # signatures that are taken
#     client_id: weir-pages # people sign in to playground and console there (code flow with PKCE); default: they paste tokens
#     client_secret_file: /etc/weir/client-secret # where the client is not a public one
#     sign_in_scopes: [profile] # beside openid

# Prices of models' tokens, per million: for tenants' budgets and the report of usage.
# prices:
#   - model: llama-3.2-1b
#     input: "0.15"
#     cached_input: "0.075" # prompt tokens from the prefix cache
#     output: "0.60"
#     class_percent: {interactive: 150, batch: 50} # of these prices, by class of the request; default 100
`

// validateResidency refuses tenants whose data has to stay somewhere on a server that does not know where it is.
func (c *Config) validateResidency() error {
	for i := range c.Tenants {
		if t := &c.Tenants[i]; len(t.Residency) > 0 && c.Server.Region == "" {
			return fmt.Errorf("check tenants: the data of %q stays in %s, and this server is in no region, so every request of it would be refused; "+
				"set server.region (--region), or take residency away", t.Name, strings.Join(t.Residency, ", "))
		}
	}
	return nil
}
