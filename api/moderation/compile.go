package moderation

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/pii"
)

// pattern is what a rule looks for: a program of regexp/syntax, and what it cannot say.
type pattern struct {
	rule       *rule
	prog       *syntax.Prog
	maxBytes   int
	begin, end border
	valid      func(match string) bool // nil: any match counts
	mark       []byte                  // stands in the place of a match
}

// piiKind is a kind of personal data. Its pattern finds what may be one, and valid says whether
// it is.
type piiKind struct {
	name       string
	pattern    string
	maxBytes   int
	begin, end border
	valid      func(string) bool
}

const (
	localChars = `[A-Za-z0-9.!#$%&'*+\-/=?^_{|}~` + "`" + `\p{Latin}\p{Greek}\p{Cyrillic}]`
	hostChars  = `[A-Za-z0-9.\-\p{Latin}\p{Greek}\p{Cyrillic}]`
	keyChars   = `[A-Za-z0-9_\-.+/=]`
)

// kinds are the values of RuleSpec.PII.
var kinds = []piiKind{
	{"email", localChars + `{1,64}@` + hostChars + `{3,128}`, 256, borderLocal, borderNone, pii.IsEmail},
	{"phone", `[+(]{0,2}\d(?:[ \-./()]{0,2}\d){6,16}`, 64, borderNumber, borderNumber, pii.IsPhone},
	{"card", `[2-6](?:[ \-]?\d){12,18}`, 64, borderNumber, borderNumber, pii.IsCard},
	{"iban", `[A-Za-z]{2}\d{2}(?:[ \-]?[A-Za-z0-9]){11,30}`, 80, borderNumber, borderNumber, pii.IsIBAN},
	{"ip", `(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{2,40}`, 48, borderAddress, borderAddress, pii.IsIP},
	{"ssn", `\d{3}-\d{2}-\d{4}`, 16, borderDash, borderDash, pii.IsSSN},
	{"key", keyPattern() + keyChars + `{10,256}`, 320, borderNumber, borderNone, pii.IsSecret},
	{"key", `-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z0-9 ]{0,32}PRIVATE KEY-----)?`, 4096, borderNone, borderNone, nil},
}

// PIIKinds are the names of the kinds of personal data.
func PIIKinds() (names []string) {
	for i := range kinds {
		if !slices.Contains(names, kinds[i].name) {
			names = append(names, kinds[i].name)
		}
	}
	return names
}

func keyPattern() string {
	quoted := pii.SecretPrefixes()
	for i, p := range quoted {
		quoted[i] = quote(p)
	}
	return "(?:" + strings.Join(quoted, "|") + ")"
}

func quote(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(`\.+*?()|[]{}^$-`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// compiler makes the automata of a policy.
type compiler struct {
	policy   *Policy
	options  Options
	patterns []*pattern
	insts    int
}

// add compiles a rule.
func (c *compiler) add(s *RuleSpec) error {
	if err := s.checkActions(); err != nil {
		return err
	}
	r := &rule{id: s.ID, category: s.Category, input: s.Input, output: s.Output, classifier: s.Classifier}
	if r.category == "" && len(s.PII) > 0 {
		r.category = "pii"
	}
	if r.category == "" {
		r.category = s.ID
	}
	c.policy.rules = append(c.policy.rules, r)
	words, patterns, err := c.lists(s)
	if err != nil {
		return err
	}
	empty := len(words) == 0 && len(patterns) == 0 && len(s.PII) == 0
	switch {
	case s.Classifier != nil && !empty:
		return errors.New("it has a classifier and words, patterns or pii; make two rules of it")
	case s.Classifier != nil:
		c.policy.classifiers = append(c.policy.classifiers, r)
		return s.checkClassifier()
	case empty:
		return errors.New("it looks for nothing; give it words, patterns, pii or a classifier")
	}
	mark := s.Replacement
	if mark == "" {
		mark = "[" + r.category + "]"
	}
	if err := c.words(s, r, words, mark); err != nil {
		return err
	}
	for i, text := range patterns {
		if err := c.pattern(s, r, text, mark); err != nil {
			return fmt.Errorf("patterns[%d] %.100q: %w", i, text, err)
		}
	}
	return c.personal(s, r)
}

func (s *RuleSpec) checkActions() error {
	for _, side := range []struct {
		name   string
		action *Action
		allow  []Action
	}{{"input", &s.Input, []Action{Ignore, Flag, Block}}, {"output", &s.Output, []Action{Ignore, Flag, Redact, Block}}} {
		if *side.action == "" {
			*side.action = Ignore
		}
		if side.name == "input" && *side.action == Redact {
			return errors.New("input is redact; what a client asks is not changed: choose block or flag")
		}
		if !slices.Contains(side.allow, *side.action) {
			return fmt.Errorf("%s is %.32q; it must be one of %v", side.name, *side.action, side.allow)
		}
	}
	switch {
	case s.Input == Ignore && s.Output == Ignore:
		return errors.New("it does nothing: input and output are ignore, or left out")
	case len(s.Replacement) > maxMarkBytes || !utf8.ValidString(s.Replacement) || strings.ContainsFunc(s.Replacement, unicode.IsControl):
		return fmt.Errorf("the replacement must be at most %d bytes of UTF-8 without control characters", maxMarkBytes)
	case s.Replacement != "" && s.Output != Redact:
		return errors.New("it has a replacement, and output is not redact")
	case s.MaxMatchBytes < 0 || s.MaxMatchBytes > maxMatchBytes:
		return fmt.Errorf("max_match_bytes is %d; it must be from 1 to %d", s.MaxMatchBytes, maxMatchBytes)
	}
	return nil
}

func (s *RuleSpec) checkClassifier() error {
	k := s.Classifier
	switch {
	case s.Output != Ignore:
		return errors.New("a classifier reads whole texts, so that it cannot follow an answer that is being written: output must be ignore")
	case k.Model == "":
		return errors.New("its classifier names no model")
	case (k.Question == "") == (k.Predictor == ""):
		return errors.New("its classifier needs one of question, for a reranker, and predictor, for a text encoder")
	case !(k.Threshold > 0 && k.Threshold <= 1):
		return fmt.Errorf("the threshold of its classifier is %v; it must be above 0 and at most 1", k.Threshold)
	}
	return nil
}

// lists are the words and patterns of a rule, with those of its files.
func (c *compiler) lists(s *RuleSpec) (words, patterns []string, err error) {
	words, patterns = s.Words, s.Patterns
	for _, f := range []struct {
		path string
		list *[]string
	}{{s.WordsFile, &words}, {s.PatternsFile, &patterns}} {
		if f.path == "" {
			continue
		}
		if c.options.ReadFile == nil {
			return nil, nil, fmt.Errorf("it names the file %.200q; a policy that belongs to a version has no files: put the list into it", f.path)
		}
		data, err := c.options.ReadFile(f.path)
		if err != nil {
			return nil, nil, err
		}
		if len(data) > MaxFileBytes || !utf8.Valid(data) {
			return nil, nil, fmt.Errorf("the file %.200q must be at most %d bytes of UTF-8", f.path, MaxFileBytes)
		}
		*f.list = slices.Clip(*f.list)
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				*f.list = append(*f.list, line)
			}
		}
	}
	return words, patterns, nil
}

// words compiles a list of words as one pattern. White space in a phrase stands for any.
func (c *compiler) words(s *RuleSpec, r *rule, words []string, mark string) error {
	byBorder := make(map[[2]border][]string)
	for i, w := range words {
		fields := strings.Fields(w)
		if len(fields) == 0 || !utf8.ValidString(w) {
			return fmt.Errorf("words[%d] is %.80q; a word has at least one character", i, w)
		}
		first, _ := utf8.DecodeRuneInString(fields[0])
		last, _ := utf8.DecodeLastRuneInString(fields[len(fields)-1])
		borders := [2]border{borderNone, borderNone}
		if isWordPart(first) {
			borders[0] = borderWord
		}
		if isWordPart(last) {
			borders[1] = borderWord
		}
		for k := range fields {
			fields[k] = quote(fields[k])
		}
		byBorder[borders] = append(byBorder[borders], strings.Join(fields, `\s{1,4}`))
	}
	for _, begin := range []border{borderNone, borderWord} {
		for _, end := range []border{borderNone, borderWord} {
			list := byBorder[[2]border{begin, end}]
			if len(list) == 0 {
				continue
			}
			slices.Sort(list) // for common beginnings
			p := &pattern{rule: r, begin: begin, end: end, mark: []byte(mark)}
			if err := c.compile(s, p, strings.Join(slices.Compact(list), "|")); err != nil {
				return fmt.Errorf("words: %w", err)
			}
		}
	}
	return nil
}

func (c *compiler) pattern(s *RuleSpec, r *rule, text, mark string) error {
	return c.compile(s, &pattern{rule: r, mark: []byte(mark)}, text)
}

func (c *compiler) personal(s *RuleSpec, r *rule) error {
	for _, name := range s.PII {
		known := false
		for i := range kinds {
			k := &kinds[i]
			if k.name != name {
				continue
			}
			known = true
			mark := s.Replacement
			if mark == "" {
				mark = "[" + name + "]"
			}
			p := &pattern{rule: r, maxBytes: k.maxBytes, begin: k.begin, end: k.end, valid: k.valid, mark: []byte(mark)}
			if err := c.compile(&RuleSpec{CaseSensitive: true, MaxMatchBytes: k.maxBytes}, p, k.pattern); err != nil {
				return fmt.Errorf("pii %s: %w", name, err)
			}
		}
		if !known {
			return fmt.Errorf("pii %.32q is none of %s", name, strings.Join(PIIKinds(), ", "))
		}
	}
	return nil
}

func (c *compiler) compile(s *RuleSpec, p *pattern, text string) error {
	flags := syntax.Perl
	if !s.CaseSensitive {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return fmt.Errorf("it is no regular expression of RE2: %w", err)
	}
	p.maxBytes = s.MaxMatchBytes
	least, most := lengths(tree)
	switch {
	case least == 0:
		return errors.New("it matches the empty text; let it ask for at least one character")
	case most < 0 && s.MaxMatchBytes == 0:
		return fmt.Errorf("a match of it has no longest length, because of * or + or {n,}; bound it as in {1,20}, or give the rule max_match_bytes of at most %d", maxMatchBytes)
	case s.MaxMatchBytes == 0 && most > maxMatchBytes:
		return fmt.Errorf("a match of it can have %d bytes; bound it to %d, or give the rule max_match_bytes", most, maxMatchBytes)
	case s.MaxMatchBytes == 0:
		p.maxBytes = most
	}
	if p.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		return fmt.Errorf("it cannot be compiled: %w", err)
	}
	if c.insts += len(p.prog.Inst); c.insts > maxInsts {
		return fmt.Errorf("the policy's patterns have more than %d instructions; make them fewer or simpler", maxInsts)
	}
	c.patterns = append(c.patterns, p)
	return nil
}

// lengths are the fewest and the most bytes of a match; most < 0 is no end.
func lengths(r *syntax.Regexp) (least, most int) {
	switch r.Op {
	case syntax.OpLiteral:
		for _, c := range r.Rune {
			least++
			most += widest(c, r.Flags&syntax.FoldCase != 0)
		}
		return least, most
	case syntax.OpCharClass:
		for i := 1; i < len(r.Rune); i += 2 {
			most = max(most, utf8.RuneLen(min(r.Rune[i], unicode.MaxRune)))
		}
		return 1, max(most, 1)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, utf8.UTFMax
	case syntax.OpCapture:
		return lengths(r.Sub[0])
	case syntax.OpStar:
		return 0, unbounded(r)
	case syntax.OpPlus:
		least, _ = lengths(r.Sub[0])
		return least, unbounded(r)
	case syntax.OpQuest:
		_, most = lengths(r.Sub[0])
		return 0, most
	case syntax.OpRepeat:
		least, most = lengths(r.Sub[0])
		switch {
		case most <= 0:
			return least * r.Min, most
		case r.Max < 0:
			return least * r.Min, -1
		}
		return least * r.Min, most * r.Max
	case syntax.OpConcat:
		for _, sub := range r.Sub {
			l, m := lengths(sub)
			least += l
			if most < 0 || m < 0 {
				most = -1
				continue
			}
			most += m
		}
		return least, most
	case syntax.OpAlternate:
		for i, sub := range r.Sub {
			l, m := lengths(sub)
			if i == 0 || l < least {
				least = l
			}
			if most < 0 || m < 0 {
				most = -1
				continue
			}
			most = max(most, m)
		}
		return least, most
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	}
	return 0, 0
}

// unbounded is the most bytes of a repetition without end: none where its content is empty.
func unbounded(r *syntax.Regexp) int {
	if _, most := lengths(r.Sub[0]); most == 0 {
		return 0
	}
	return -1
}

func widest(c rune, fold bool) int {
	n := max(utf8.RuneLen(c), 1)
	if fold {
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			n = max(n, utf8.RuneLen(f))
		}
	}
	return n
}

// finish sorts the patterns by side and action.
func (c *compiler) finish() {
	of := func(side Side, a Action) *automaton {
		var list []*pattern
		for _, p := range c.patterns {
			if p.rule.action(side) == a {
				list = append(list, p.on(side))
			}
		}
		return newAutomaton(list)
	}
	p := c.policy
	p.input = sideRules{block: of(Input, Block), flag: of(Input, Flag)}
	p.output = sideRules{block: of(Output, Block), redact: of(Output, Redact), flag: of(Output, Flag)}
	p.filters = p.output != sideRules{}
	p.reads = p.input != sideRules{} || slices.ContainsFunc(p.classifiers, func(r *rule) bool { return r.input != Ignore })
	all := make([]*pattern, len(c.patterns))
	for i := range all {
		all[i] = c.patterns[i].on("")
	}
	p.all = newAutomaton(all)
}

func (r *rule) action(s Side) Action {
	if s == Input {
		return r.input
	}
	return r.output
}

// on is the pattern with the rule as findings of one side name it.
func (p *pattern) on(s Side) *pattern {
	own, r := *p, *p.rule
	r.side = s
	own.rule = &r
	return &own
}
