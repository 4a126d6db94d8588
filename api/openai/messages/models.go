package messages

import (
	"net/url"
	"strconv"
	"time"

	"weir/api"
	"weir/api/openai/jsonbody"
)

// Model is a model as Anthropic's API lists it.
type Model struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// NewModel is the model of a name, served since a time in Unix seconds.
func NewModel(id string, created int64) Model {
	return Model{Type: "model", ID: id, DisplayName: id, CreatedAt: time.Unix(created, 0).UTC().Format(time.RFC3339)}
}

// ModelPage is a part of the list of models.
type ModelPage struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

const (
	defaultModels = 20
	mostModels    = 1000
)

// PageOf is the part of a list that the query asks for: limit, and after_id or before_id.
func PageOf(list []Model, query url.Values) (*ModelPage, *api.Error) {
	limit := defaultModels
	if raw := query.Get("limit"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 || n > mostModels {
			return nil, api.RefuseParam("invalid_value", "limit", "limit is %s; it must be between 1 and %d", jsonbody.HeaderQuote(raw), mostModels)
		}
		limit = n
	}
	after, before := query.Get("after_id"), query.Get("before_id")
	if after != "" && before != "" {
		return nil, api.RefuseParam("invalid_value", "before_id", "after_id and before_id are both given; send one of them")
	}
	var fault *api.Error
	find := func(field, id string, otherwise int) int {
		for i := range list {
			if list[i].ID == id {
				return i
			}
		}
		if id != "" {
			jsonbody.Keep(&fault, api.RefuseParam("invalid_value", field, "%s is %s, and no model of the list has this id; take first_id or last_id of another page", field, jsonbody.HeaderQuote(id)))
		}
		return otherwise
	}
	from, to := find("after_id", after, -1)+1, find("before_id", before, len(list))
	if fault != nil {
		return nil, fault
	}
	page := &ModelPage{Data: []Model{}, HasMore: to-from > limit}
	if before != "" {
		from = max(from, to-limit)
	}
	if list = list[from:min(to, from+limit)]; len(list) > 0 {
		page.Data, page.FirstID, page.LastID = list, &list[0].ID, &list[len(list)-1].ID
	}
	return page, nil
}
