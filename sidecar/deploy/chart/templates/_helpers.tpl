{{/* Labels of all objects and of the pods. */}}
{{- define "mc-sidecar.labels" -}}
app.kubernetes.io/name: mc-sidecar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: cluster-proxy
app.kubernetes.io/part-of: kubectl-mc
{{- end }}

{{/* Renders an object with the recommended labels; argument (list OBJECT ROOT). */}}
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

{{/* Renders a manifest of `kubectl mc install` for the release's namespace; argument (list MANIFEST ROOT). */}}
{{- define "mc-sidecar.manifest" -}}
{{ index . 0 | printf "manifests/%s.yaml" | (index . 1).Files.Get | replace "kubectl-mc-system" (index . 1).Release.Namespace }}
{{- end }}

{{/* Name of the Secret of the serving certificate, unless the sidecar manages it. */}}
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

{{/* Fields of a pod for scheduling and image pulls. */}}
{{- define "mc-sidecar.scheduling" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" "priorityClassName" }}
{{- with index $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}
