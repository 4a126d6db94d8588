// Package constraint compiles what binds answers (formats and demanded calls) to a constraint of the engine, fairly between tenants, within bounds of time and memory.
package constraint

import (
	"errors"
	"fmt"
	"slices"

	"weir/api"
	"weir/api/openai/digest"
	"weir/api/openai/format"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/replay"
	"weir/internal/work"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
	"weir/tokenizer/grammar/tag"
)

// AnswerRules are what the grammar of an answer is made of: its text's format, and how a
// thought and calls stand beside the text.
type AnswerRules struct {
	Model   *models.Model
	Format  *format.Format // nil: the text is free
	Reading *job.Reading   // nil: there is neither thought nor call

	schemas format.SchemaRules // of tools
}

// rulesOf are the rules of a job's answers; ok is false where nothing binds them. Where
// the model chooses between text and calls, the rules let all text pass that begins no
// call.
func rulesOf(j *job.Job) (r AnswerRules, ok bool) {
	r = AnswerRules{j.Model, j.Params.Format, j.Reading, j.Params.Schemas}
	return r, r.Format != nil || r.Reading != nil && r.Reading.Tools.Choice.Mode != family.None
}

// lazy reports whether the request demands nothing: rules that cannot be kept are left
// out then, with a warning.
func (r *AnswerRules) lazy() bool { return r.Format == nil && !r.Reading.Tools.Forced() }

// field is the request's field that binds the answers.
func (r *AnswerRules) field() string {
	if r.Format != nil {
		return r.Format.Field
	}
	return "tools"
}

// hash is over all that decides on the grammar.
func (r *AnswerRules) hash() replay.Hash {
	d := digest.New()
	d.Flag(r.Format != nil)
	if r.Format != nil {
		r.Format.WriteTo(d)
	}
	d.Flag(r.Reading != nil)
	if r.Reading != nil || r.Format != nil && r.Format.Kind == format.Tag {
		d.Text(r.Model.ID) // its family, and which markers are control tokens
		d.Text(r.Model.Version)
	}
	if q := r.Reading; q != nil {
		d.Flag(q.Thinks)
		d.Flag(q.Options.Opening.Thinking)
		d.Flag(q.Options.Opening.Thought)
		d.Text(q.Options.Opening.Markup)
		job.WriteReading(d, q)
		d.Text(string(r.schemas.Documents))
		d.Flag(r.schemas.AnyOrder)
		d.Integer(len(q.Options.Tools))
		for i := range q.Options.Tools {
			t := &q.Options.Tools[i]
			d.Text(t.Name)
			d.Text(string(t.Parameters))
			d.Flag(t.Strict)
			d.Flag(q.Tools.IsCustom(t.Name))
			q.Tools.Inputs[t.Name].WriteTo(d)
		}
	}
	return replay.Hash(d.Sum(nil))
}

// size is how many bytes of the request the rules take.
func (r *AnswerRules) size() (n int) {
	if r.Format != nil {
		n = r.Format.Size()
	}
	if r.Reading != nil {
		n += len(r.schemas.Documents)
		for i := range r.Reading.Options.Tools {
			n += len(r.Reading.Options.Tools[i].Parameters)
		}
	}
	return n
}

// Compile makes a grammar of the rules, and the words for what it does not enforce. The
// grammar is nil where nothing demands one and none can be made.
func (r *AnswerRules) Compile(limits grammar.Limits) (*compiledRules, *api.Error) {
	c, fault := r.compileWith(limits, r.schema)
	if fault == nil || !r.lazy() {
		return c, fault
	}
	// Together, the schemas are more than a grammar may have: the calls keep their form.
	warning := "tools are not enforced: " + jsonbody.HeaderQuote(fault.Message)
	if limits.Meter != nil && errors.Is(limits.Meter.Err(), work.ErrSpent) {
		limits.Meter.Reset()
	}
	c, fault = r.compileWith(limits, func(_ *compiledRules, b *grammar.Builder, _ []byte, _ bool) (grammar.Symbol, error) {
		return schema.AddObject(b, schema.Options{})
	})
	if fault != nil {
		c = &compiledRules{}
	}
	c.Warnings = []string{warning}
	return c, nil
}

// schemaCompiler adds the rules of the arguments of a call.
type schemaCompiler func(c *compiledRules, b *grammar.Builder, text []byte, strict bool) (grammar.Symbol, error)

// schema adds those that follow their schema.
func (r *AnswerRules) schema(c *compiledRules, b *grammar.Builder, text []byte, strict bool) (grammar.Symbol, error) {
	o := r.schemas.Options(strict)
	s, report, err := schema.Add(b, text, o)
	c.warn(r.Reading.Tools.PathOf(text), report.Ignored)
	return s, err
}

func (r *AnswerRules) compileWith(limits grammar.Limits, add schemaCompiler) (*compiledRules, *api.Error) {
	b, c := grammar.NewBuilder(limits), &compiledRules{}
	start, fault := r.add(b, c, add)
	if fault != nil {
		return nil, fault
	}
	var err error
	if c.Grammar, err = b.Compile(start); err != nil {
		return nil, r.refuse(err)
	}
	return c, nil
}

// add adds the rules to a grammar: a format's alone, or within those of the family.
func (r *AnswerRules) add(b *grammar.Builder, c *compiledRules, arguments schemaCompiler) (start grammar.Symbol, fault *api.Error) {
	var body *grammar.Symbol
	if r.Format != nil {
		text, ignored, err := r.Format.Add(b, r.control)
		if err != nil {
			return 0, r.refuse(err)
		}
		c.warn("", ignored)
		if body = &text; r.Reading == nil {
			return text, nil
		}
	}
	q := r.Reading
	rules := family.Rules{
		Tools: slices.Clone(q.Options.Tools), Choice: q.Options.Choice, Opening: q.Options.Opening, Thought: q.Thinks, Body: body,
		Schema: func(b *grammar.Builder, text []byte, strict bool) (grammar.Symbol, error) {
			s, err := arguments(c, b, text, strict)
			if err != nil {
				fault = schemaFault(q.Tools.PathOf(text), err)
			}
			return s, err
		},
		Control: r.control,
	}
	for i := range rules.Tools {
		if f := q.Tools.Inputs[rules.Tools[i].Name]; f != nil {
			rules.Tools[i] = f.Told(rules.Tools[i], &fault)
		}
	}
	if q.Options.Choice.Mode == family.Auto {
		rules.Loose = func(t *family.Tool, err error) {
			fault = nil
			c.Warnings = append(c.Warnings, fmt.Sprintf("arguments of %s are not enforced: %s", jsonbody.HeaderQuote(t.Name), jsonbody.HeaderQuote(err.Error())))
		}
	}
	start, err := q.Family.Grammar(b, rules)
	switch {
	case fault != nil:
		return 0, fault
	case err != nil:
		return 0, r.refuse(err)
	}
	return start, nil
}

// control reports whether a text is a control token of the model.
func (r *AnswerRules) control(text string) bool {
	id, known := r.Model.Tokenizer.ID(text)
	return known && r.Model.Tokenizer.IsControl(id)
}

// refuse tells the client what is wrong with the rules.
func (r *AnswerRules) refuse(err error) *api.Error {
	if tooComplex(err) {
		return api.RefuseParam("format_too_complex", r.field(), "%s: %v", r.field(), err)
	}
	if r.Format == nil {
		return api.RefuseParam("invalid_schema", "tools", "tools: %v", err)
	}
	if r.Format.Kind <= format.Schema {
		return schemaFault(r.Format.Field, err)
	}
	param := r.Format.Field
	if wrong := (*tag.Error)(nil); errors.As(err, &wrong) && wrong.Pointer != "" {
		param += "#" + wrong.Pointer
	}
	return api.RefuseParam(r.Format.Code(), param, "%s: %v", r.Format.Field, err)
}

// tooComplex reports whether what is wrong with rules is how much they take.
func tooComplex(err error) bool {
	return errors.Is(err, grammar.ErrLimit) || errors.Is(err, regex.ErrSize)
}

// schemaFault tells the client what is wrong with a schema. The parameter ends with the
// JSON pointer of the keyword.
func schemaFault(field string, err error) *api.Error {
	if tooComplex(err) {
		return api.RefuseParam("format_too_complex", field, "%s: %v", field, err)
	}
	param := field
	if wrong := (*schema.Error)(nil); errors.As(err, &wrong) && wrong.Pointer != "" {
		param += "#" + wrong.Pointer
	}
	return api.RefuseParam("invalid_schema", param, "%s: %v", field, err)
}

// compiledRules is an answer's grammar.
type compiledRules struct {
	Grammar  *grammar.Grammar // nil: the answer is free
	Warnings []string
}

// warn notes keywords that the grammar does not enforce.
func (c *compiledRules) warn(field string, ignored []schema.Ignored) {
	for _, i := range ignored {
		c.Warnings = append(c.Warnings, fmt.Sprintf("not enforced %s at %s", jsonbody.HeaderQuote(i.Keyword), jsonbody.HeaderQuote(field+"#"+i.Pointer)))
	}
}
