// Package grade plays the cases of package script against a server and grades it.
package grade

import (
	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
)

// Result is what a run came to: the file of --json.
type Result struct {
	Version  int            `json:"version"` // 1
	Score    float64        `json:"score"`
	Best     float64        `json:"best"` // the highest score there is: 100
	Seconds  float64        `json:"seconds"`
	Seed     uint64         `json:"seed"`
	Salt     string         `json:"salt"`
	Target   string         `json:"target"`
	Habits   dialect.Habits `json:"habits"`
	Groups   []GroupResult  `json:"groups"`
	Cases    []CaseResult   `json:"cases"`
	Restarts int            `json:"restarts"`
	Log      string         `json:"log"` // the end of what the server printed
}

// GroupResult is a group's part of the score.
type GroupResult struct {
	Name   string  `json:"name"`
	Points float64 `json:"points"`
	Max    float64 `json:"max"`
}

// CaseResult is what a case came to.
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
