{{/* The labels of all objects and of the pods. */}}
{{- define "mc-sidecar.labels" -}}
app.kubernetes.io/name: mc-sidecar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: cluster-proxy
app.kubernetes.io/part-of: kubectl-mc
{{- end }}

{{/* An object of (list OBJECT ROOT), with the recommended labels. */}}
{{- define "mc-sidecar.object" -}}
{{- $object := index . 0 }}
{{- $root := index . 1 }}
{{- $labels := include "mc-sidecar.labels" $root | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- $_ := set $object.metadata "labels" (merge $labels ($object.metadata.labels | default dict)) }}
---
{{ toYaml $object }}
{{ end }}

{{/* The text of (list MANIFEST ROOT), which `kubectl mc install` applies too, for the release's namespace. */}}
{{- define "mc-sidecar.manifest" -}}
{{ index . 0 | printf "manifests/%s.yaml" | (index . 1).Files.Get | replace "kubectl-mc-system" (index . 1).Release.Namespace }}
{{- end }}

{{/* The Secret of the serving certificate, if the sidecar does not make it. */}}
{{- define "mc-sidecar.servingSecret" -}}
{{- if eq .Values.certificates "CertManager" -}}
mc-sidecar-tls
{{- else if eq .Values.certificates "Secret" -}}
{{ required "certificates is Secret, and tls.secretName is empty" .Values.tls.secretName }}
{{- end }}
{{- end }}

{{- define "mc-sidecar.image" -}}
{{- $repository := required "image.repository is required: an image of mc-sidecar" .Values.image.repository }}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The fields of a pod that say where it runs and how its image is fetched. */}}
{{- define "mc-sidecar.scheduling" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" "priorityClassName" }}
{{- with index $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}
