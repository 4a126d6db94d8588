package configs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"weir/api/moderation"
)

// NoPolicy in the place of a policy's name says that a model has none, whatever it was imported with.
const NoPolicy = "none"

func (s *Sources) decodePolicies(d *fileDecoder, n *yaml.Node) error {
	policies := []moderation.Spec{}
	err := d.records(n, "policies", func(n *yaml.Node, path string) error {
		var p moderation.Spec
		if err := d.record(n, path, policyFields(&p)); err != nil {
			return err
		}
		if _, err := moderation.New(p, moderation.Options{ReadFile: readList}); err != nil {
			return d.errorf(n, "%s: %v", path, err)
		}
		policies = append(policies, p)
		return nil
	})
	if err == nil {
		s.config.Policies = policies
	}
	return err
}

// policyFields binds the keys of an entry of policies.
func policyFields(p *moderation.Spec) []field {
	return []field{
		{key: "name", binding: bindText(&p.Name, servedNameForm, isServedName)},
		{key: "hold_back_tokens", binding: bindInt(&p.HoldBackTokens, 1, 256, "")},
		{key: "roles", binding: bindWords(&p.Roles, moderation.Roles)},
		{key: "rules", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.records(n, path, func(n *yaml.Node, path string) error {
				var r moderation.RuleSpec
				err := d.record(n, path, ruleFields(&r))
				p.Rules = append(p.Rules, r)
				return err
			})
		}},
	}
}

func ruleFields(r *moderation.RuleSpec) []field {
	return []field{
		{key: "id", binding: bindText(&r.ID, "a name", anyText)},
		{key: "category", binding: bindText(&r.Category, "a name", anyText)},
		{key: "words", binding: bindList(&r.Words, "a word")},
		{key: "words_file", binding: bindText(&r.WordsFile, "a path", anyText)},
		{key: "patterns", binding: bindList(&r.Patterns, "a regular expression")},
		{key: "patterns_file", binding: bindText(&r.PatternsFile, "a path", anyText)},
		{key: "pii", binding: bindWords(&r.PII, moderation.PIIKinds())},
		{key: "case_sensitive", binding: bindBool(&r.CaseSensitive)},
		{key: "max_match_bytes", binding: bindInt(&r.MaxMatchBytes, 1, 1024, "")},
		{key: "input", binding: bindChoice(&r.Input, []string{"ignore", "flag", "block", "redact"})},
		{key: "output", binding: bindChoice(&r.Output, []string{"ignore", "flag", "redact", "block"})},
		{key: "replacement", binding: bindText(&r.Replacement, "a text", anyText)},
		{key: "classifier", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			r.Classifier = &moderation.ClassifierSpec{}
			return d.record(n, path, classifierFields(r.Classifier))
		}},
	}
}

func classifierFields(c *moderation.ClassifierSpec) []field {
	return []field{
		{key: "model", binding: bindText(&c.Model, "the name of a model", anyText)},
		{key: "question", binding: bindText(&c.Question, "a text", anyText)},
		{key: "predictor", binding: bindText(&c.Predictor, "the name of a classical model", anyText)},
		{key: "threshold", binding: bindRatio(&c.Threshold)},
	}
}

// readList reads a file of words or patterns.
func readList(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, moderation.MaxFileBytes+1)) // a byte above tells that it is too large
}

// SafetyOf is the policy that a record's requests and answers must keep; nil: it has none.
// key is that of the digests in reports.
func (c Config) SafetyOf(m ServedModel, key []byte) (*moderation.Policy, error) {
	wrong := func(err error) error { return fmt.Errorf("the policy of the model %q: %w", m.Name, err) }
	switch m.Safety {
	case NoPolicy:
		return nil, nil //nolint:nilnil // there is none, and that is no error
	case "":
		if m.OwnSafety == "" {
			return nil, nil //nolint:nilnil // as above
		}
		spec, err := moderation.ParseSpec([]byte(m.OwnSafety))
		if err != nil {
			return nil, wrong(err)
		}
		spec.Name = cmp.Or(spec.Name, m.Name)
		p, err := moderation.New(spec, moderation.Options{Secret: key})
		if err != nil {
			return nil, wrong(err)
		}
		return p, nil
	}
	for i := range c.Policies {
		if c.Policies[i].Name != m.Safety {
			continue
		}
		p, err := moderation.New(c.Policies[i], moderation.Options{ReadFile: readList, Secret: key})
		if err != nil {
			return nil, wrong(err)
		}
		return p, nil
	}
	return nil, wrong(fmt.Errorf("there is no policy %q; list it in policies, or set safety to one of the list or to %s", m.Safety, NoPolicy))
}

// validatePolicies checks that names are given once, and that those that models have are there.
func (c Config) validatePolicies() error {
	var errs []error
	seen := make(map[string]bool)
	for i := range c.Policies {
		name := c.Policies[i].Name
		switch {
		case name == "" || name == NoPolicy:
			errs = append(errs, fmt.Errorf("check policies: policies[%d] has the name %q; give it another one", i, name))
		case seen[name]:
			errs = append(errs, fmt.Errorf("check policies: two policies are called %q", name))
		}
		seen[name] = true
	}
	for _, m := range append(c.ServedModels(), c.RoutedModels()...) {
		p, err := c.SafetyOf(m, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.validateClassifiers(m.Name, p))
		if i := slices.IndexFunc(c.Policies, func(p moderation.Spec) bool { return p.Name == m.Safety }); i >= 0 && !isLocal(m) && readsAnswers(&c.Policies[i]) {
			errs = append(errs, fmt.Errorf("check policies: the model %q is computed by its replicas, whose answers pass as they come; "+
				"the policy %q has rules with output: let the replicas keep it, and give this model one whose rules have input only", m.Name, m.Safety))
		}
	}
	return errors.Join(errs...)
}

// validateClassifiers checks that the models that a policy asks are there.
func (c Config) validateClassifiers(model string, p *moderation.Policy) error {
	for _, k := range p.Classifiers() {
		if !slices.ContainsFunc(c.ServedModels(), func(m ServedModel) bool { return m.Name == k.Model || slices.Contains(m.Aliases, k.Model) }) {
			return fmt.Errorf("check policies: the policy %q of the model %q asks the classifier %q, which is no model that is computed here", p.Name(), model, k.Model)
		}
		if k.Predictor != "" && !slices.ContainsFunc(c.ClassicModels(), func(m Classic) bool { return m.Name == k.Predictor }) {
			return fmt.Errorf("check policies: the policy %q of the model %q asks the classical model %q, which is not served", p.Name(), model, k.Predictor)
		}
	}
	return nil
}

func readsAnswers(p *moderation.Spec) bool {
	return slices.ContainsFunc(p.Rules, func(r moderation.RuleSpec) bool { return r.Output != "" && r.Output != moderation.Ignore })
}

// policiesSample shows the list in the example file, commented out.
const policiesSample = `
# Policies: what texts requests may bring and answers may hold, by rules. A model keeps the one
# that its record names with safety. Patterns are those of RE2 and must bound their matches.
# policies:
#   - name: default
#     hold_back_tokens: 32 # the most of an answer that waits while a match may have begun
#     roles: [user, tool] # whose messages are read; also system, assistant
#     rules: # each has an id, what it looks for, and what it does on either side
#       - id: weapons
#         category: illicit/violent # OpenAI's names or others; default: the id
#         words: [pipe bomb, detonator] # whole words and phrases
#         # words_file: weapons.txt # more of them, one on a line
#         case_sensitive: false
#         input: block # refuse the request; flag: report it; ignore
#         output: block # end the answer before it; redact: replace it; flag; ignore
#       - id: project-names
#         patterns: ["\\bproject-[a-z]{3,12}\\b"]
#         # patterns_file: projects.txt
#         max_match_bytes: 64 # of patterns without a longest match, such as a.*b
#         output: redact
#         replacement: "[project]" # default: the category, or the kind of data, in brackets
#       - id: personal-data
#         pii: [email, phone, card, iban, ip, ssn, key]
#         input: flag
#         output: redact
#       # - id: toxic # a model scores what requests bring
#       #   category: harassment
#       #   classifier:
#       #     model: my-reranker # with a question; or a text encoder, with a predictor
#       #     question: Is this text an insult?
#       #     threshold: 0.8
#       #   input: block
`
