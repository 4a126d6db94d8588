package decision

import (
	"encoding/json"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

// Read reads a request of OpenAI's Decisions API.
func Read(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	p := &Request{RequestID: params.ReadRequestID(o.Object, &fault), form: openAI{}}
	params.ReadLabels(o.Object, &fault)
	readCacheOptions(o.Object, &fault)
	p.raw = !o.Flag("calibrate", true, &fault)
	if raw, ok := o.Take("input"); ok {
		var err *api.Error
		p.input, err = readInput(o.Object, raw)
		jsonbody.Keep(&fault, err)
	} else {
		jsonbody.Keep(&fault, jsonbody.Missing("input", "a string or an array of messages"))
	}
	if raw, ok := o.Take("questions"); ok {
		var err *api.Error
		p.questions, err = readQuestions(o.Object, raw)
		jsonbody.Keep(&fault, err)
	} else {
		jsonbody.Keep(&fault, jsonbody.Missing("questions", "an array of questions"))
	}
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return nil, fault
	}
	p.Parsed = time.Now()
	return p, p.tokenise(o, m)
}

// readCacheOptions reads what changes no answer: every prefix is cached, as long as there is room.
func readCacheOptions(o *jsonbody.Object, fault **api.Error) {
	options, ok := o.Inner("prompt_cache_options", fault)
	if !ok {
		return
	}
	for name, words := range map[string][]string{"mode": {"implicit", "explicit"}, "ttl": nil} {
		text, ok := options.Text(name, fault)
		if path := jsonbody.Join(options.Path, name); ok && words != nil && text != words[0] && text != words[1] {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s is %s; it must be implicit or explicit", path, jsonbody.HeaderQuote(text)))
		}
	}
	options.Finish(fault)
}

func readQuestions(o *jsonbody.Object, raw json.RawMessage) ([]question, *api.Error) {
	list, err := jsonbody.Array("questions", raw, MaxQuestions)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, api.RefuseParam("invalid_value", "questions", "questions is empty; ask 1 to %d", MaxQuestions)
	}
	questions := make([]question, len(list))
	for i, raw := range list {
		if err := questions[i].read(o, jsonbody.At("questions", i), raw); err != nil {
			return nil, err
		}
	}
	return questions, checkNames(questions)
}

// read reads a question of OpenAI's API.
func (q *question) read(o *jsonbody.Object, path string, raw json.RawMessage) *api.Error {
	inner, err := o.Parse(path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	var fault *api.Error
	q.path = path
	if q.name, q.isNamed = inner.Text("name", &fault); q.isNamed {
		jsonbody.Keep(&fault, checkName(jsonbody.Join(path, "name"), q.name))
	}
	at := jsonbody.Join(path, "instructions")
	if raw, ok := inner.Take("instructions"); ok {
		q.instructions, err = readParts(inner, at, raw, questionParts)
		jsonbody.Keep(&fault, err)
	} else {
		jsonbody.Keep(&fault, jsonbody.Missing(at, "a string or an array of parts"))
	}
	switch kind := inner.Need("type", &fault); kind {
	case "predicate":
		q.statement()
	case "choice":
		q.readChoices(inner, &fault)
	case "score":
		q.readLevels(inner, &fault)
	default:
		at := jsonbody.Join(path, "type")
		jsonbody.Keep(&fault, api.RefuseParam("invalid_value", at, "%s is %s; it must be predicate, choice or score", at, jsonbody.HeaderQuote(kind)))
	}
	inner.Finish(&fault)
	if fault == nil {
		fault = q.checkOptions()
	}
	return fault
}

// readList reads the objects of a question's array.
func readList(o *jsonbody.Object, name string, fault **api.Error) []*jsonbody.Object {
	path := jsonbody.Join(o.Path, name)
	raw, ok := o.Take(name)
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(path, "an array of 2 to "+strconv.Itoa(MaxOptions)+" objects"))
		return nil
	}
	list, err := jsonbody.Array(path, raw, MaxOptions)
	if err == nil {
		err = checkCount(path, name, len(list))
	}
	if err != nil {
		jsonbody.Keep(fault, err)
		return nil
	}
	objects := make([]*jsonbody.Object, 0, len(list))
	for i, raw := range list {
		inner, err := o.Parse(jsonbody.At(path, i), raw, jsonbody.MaxFields)
		if err != nil {
			jsonbody.Keep(fault, err)
			return nil
		}
		objects = append(objects, inner)
	}
	return objects
}

func (q *question) readChoices(o *jsonbody.Object, fault **api.Error) {
	q.kind = choice
	var isText []bool
	for _, inner := range readList(o, "choices", fault) {
		c := option{path: jsonbody.Join(inner.Path, "value")}
		raw, ok := inner.Take("value")
		switch {
		case !ok:
			jsonbody.Keep(fault, jsonbody.Missing(c.path, "a string or a boolean"))
		case string(raw) == "true" || string(raw) == "false":
			c.label, c.value = string(raw), raw
		case raw[0] == '"':
			var err *api.Error
			c.label, err = jsonbody.String(c.path, raw)
			c.value = api.AppendString(nil, c.label)
			jsonbody.Keep(fault, err)
		default:
			jsonbody.Keep(fault, jsonbody.WrongType(c.path, "a string or a boolean", raw))
		}
		c.description, _ = inner.Text("description", fault)
		inner.Finish(fault)
		q.options, isText = append(q.options, c), append(isText, ok && raw[0] == '"')
	}
	q.separateTypes(isText)
}

func (q *question) readLevels(o *jsonbody.Object, fault **api.Error) {
	q.kind = score
	for _, inner := range readList(o, "levels", fault) {
		c := option{path: jsonbody.Join(inner.Path, "label")}
		c.label = inner.Need("label", fault)
		c.value = api.AppendString(nil, c.label)
		c.description, _ = inner.Text("description", fault)
		inner.Finish(fault)
		q.options = append(q.options, c)
	}
}
