{{/* The text of a manifest that `kubectl mc install` applies too, for the release's namespace. */}}
{{- define "manifest" -}}
{{ index . 0 | printf "manifests/%s.yaml" | (index . 1).Files.Get | replace "kubectl-mc-system" (index . 1).Release.Namespace }}
{{- end }}
