// Package grade plays the cases of package script against a server and scores it.
package grade

import (
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
)

// Result is the outcome of a run. Its JSON is the file that --json writes.
type Result struct {
	Version  int            `json:"version"` // always 1
	Score    float64        `json:"score"`
	Best     float64        `json:"best"` // the highest possible score
	Seconds  float64        `json:"seconds"`
	Seed     uint64         `json:"seed"`
	Salt     string         `json:"salt"`
	Target   string         `json:"target"`
	Habits   dialect.Habits `json:"habits"`
	Groups   []GroupResult  `json:"groups"`
	Cases    []CaseResult   `json:"cases"`
	Restarts int            `json:"restarts"`
	Log      string         `json:"log"` // the end of the server's output
}

// GroupResult is the sum of the points of a group's cases.
type GroupResult struct {
	Name   string  `json:"name"`
	Points float64 `json:"points"`
	Max    float64 `json:"max"`
}

// CaseResult is the outcome of a case.
type CaseResult struct {
	Name         string        `json:"name"`
	Group        string        `json:"group"`
	Rule         string        `json:"rule"`
	Tell         string        `json:"tell"`
	Status       script.Status `json:"status"`
	Points       float64       `json:"points"`
	Max          float64       `json:"max"`
	Message      string        `json:"message"`
	Conversation []string      `json:"conversation"`
	Seconds      float64       `json:"seconds"`
	Tries        int           `json:"tries"`
	Hidden       bool          `json:"hidden"`
}
