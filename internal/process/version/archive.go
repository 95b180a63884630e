package version

// archived is the commit of a source archive: git archive writes it here (.gitattributes). In a checkout it
// is a placeholder.
const archived = "$Format:%H$"
