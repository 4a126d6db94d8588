package decision

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/params"
)

// ReadSystemOne reads a request of the System One format: TypeSafe's, llama.cpp's, Ollama's and vLLM's /v1/systemone.
func ReadSystemOne(o *job.Body, m *models.Model) (*Request, *api.Error) {
	var fault *api.Error
	p := &Request{RequestID: params.ReadRequestID(o.Object, &fault), form: systemOne{}}
	params.ReadLabels(o.Object, &fault)
	p.raw = !o.Flag("calibrate", true, &fault)
	if o.Has("assets") {
		jsonbody.Keep(&fault, jsonbody.Unsupported("assets", "no model here reads images; describe them in the state"))
	}
	if raw, ok := o.Take("state"); ok {
		var err *api.Error
		p.input, p.state, err = readContent("state", raw)
		if err == nil && strings.TrimSpace(p.input) == "" {
			err = emptyInput("state")
		}
		jsonbody.Keep(&fault, err)
	} else {
		jsonbody.Keep(&fault, jsonbody.Missing("state", "a string, an object or an array"))
	}
	if raw, ok := o.Take("questions"); ok {
		var err *api.Error
		p.questions, err = readNamed(o.Object, raw)
		jsonbody.Keep(&fault, err)
	} else {
		jsonbody.Keep(&fault, jsonbody.Missing("questions", "an object of questions by name"))
	}
	o.FinishBut(params.Unsupported, &fault)
	if fault != nil {
		return nil, fault
	}
	p.Parsed = time.Now()
	return p, p.tokenise(o, m)
}

// readContent gives a string as it is, and other JSON as compact text and as JSON, which is compact as well: it is read again for each question.
func readContent(path string, raw json.RawMessage) (text string, given json.RawMessage, fault *api.Error) {
	switch raw[0] {
	case '"':
		text, fault = jsonbody.String(path, raw)
		return text, nil, fault
	case '{', '[':
		text, fault = compact(path, raw)
		return text, json.RawMessage(text), fault
	}
	return "", nil, jsonbody.WrongType(path, "a string, an object or an array", raw)
}

// takeContent is readContent of a field; "" where it is not given.
func takeContent(o *jsonbody.Object, name string, fault **api.Error) (text string, given json.RawMessage) {
	raw, ok := o.Take(name)
	if !ok {
		return "", nil
	}
	text, given, err := readContent(jsonbody.Join(o.Path, name), raw)
	jsonbody.Keep(fault, err)
	return text, given
}

func readNamed(o *jsonbody.Object, raw json.RawMessage) ([]question, *api.Error) {
	list, err := o.Parse("questions", raw, MaxQuestions)
	if err != nil {
		return nil, err
	}
	if len(list.Fields) == 0 {
		return nil, api.RefuseParam("invalid_value", "questions", "questions is empty; ask 1 to %d", MaxQuestions)
	}
	questions := make([]question, len(list.Fields))
	for i, f := range list.Fields {
		q := &questions[i]
		q.path, q.name, q.isNamed = jsonbody.Join("questions", f.Name), f.Name, true
		if err := checkName("questions", f.Name); err != nil {
			return nil, err
		}
		if err := q.readSystemOne(o, f.Raw); err != nil {
			return nil, err
		}
	}
	return questions, nil
}

func (q *question) readSystemOne(o *jsonbody.Object, raw json.RawMessage) *api.Error {
	inner, err := o.Parse(q.path, raw, jsonbody.MaxFields)
	if err != nil {
		return err
	}
	var fault *api.Error
	q.instructions, q.raw = takeContent(inner, "instructions", &fault)
	switch kind := inner.Need("type", &fault); kind {
	case "noul":
		q.readNoul(inner, &fault)
	case "choice":
		q.readCriteria(inner, &fault)
	case "score":
		q.readRubric(inner, &fault)
	default:
		at := jsonbody.Join(q.path, "type")
		jsonbody.Keep(&fault, api.RefuseParam("invalid_value", at, "%s is %s; it must be noul, choice or score", at, jsonbody.HeaderQuote(kind)))
	}
	inner.Finish(&fault)
	if fault == nil {
		fault = q.checkOptions()
	}
	return fault
}

func (q *question) readNoul(o *jsonbody.Object, fault **api.Error) {
	q.statement()
	if criteria, ok := o.Inner("criteria", fault); ok {
		for i, name := range []string{"true", "false"} {
			q.options[i].description, q.options[i].raw = takeContent(criteria, name, fault)
		}
		criteria.Finish(fault)
	}
}

// readCriteria reads the options of a choice, by name.
func (q *question) readCriteria(o *jsonbody.Object, fault **api.Error) {
	q.kind = choice
	path := jsonbody.Join(o.Path, "criteria")
	raw, ok := o.Take("criteria")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(path, "an object of options with their descriptions"))
		return
	}
	list, err := o.Parse(path, raw, MaxOptions)
	if err == nil {
		err = checkCount(path, "options", len(list.Fields))
	}
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	for _, f := range list.Fields {
		c := option{path: jsonbody.Join(path, f.Name), label: f.Name, value: api.AppendString(nil, f.Name)}
		c.description, c.raw = takeContent(list, f.Name, fault)
		q.options = append(q.options, c)
	}
}

// readRubric reads the levels of a score, whose labels are their numbers.
func (q *question) readRubric(o *jsonbody.Object, fault **api.Error) {
	q.kind = score
	path := jsonbody.Join(o.Path, "criteria")
	raw, ok := o.Take("criteria")
	if !ok {
		jsonbody.Keep(fault, jsonbody.Missing(path, "an array of descriptions, the lowest level first"))
		return
	}
	list, err := jsonbody.Array(path, raw, MaxOptions)
	if err == nil {
		err = checkCount(path, "levels", len(list))
	}
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	for i, raw := range list {
		at := jsonbody.At(path, i)
		text, given, err := readContent(at, raw)
		jsonbody.Keep(fault, err)
		q.options = append(q.options, option{path: at, label: strconv.Itoa(i), description: text, raw: given, value: raw})
	}
}
