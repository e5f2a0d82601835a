{{- define "podium.selector" -}}
app.kubernetes.io/name: podium
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "podium.labels" -}}
{{ include "podium.selector" . }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Cluster-wide names must differ between two releases. */ -}}
{{- define "podium.name" -}}
{{ ternary .Release.Name (printf "podium-%s" .Release.Name) (contains "podium" .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "podium.lease" -}}
{{ dig "leaderElection" "resourceName" "podium" .Values.config }}
{{- end }}

{{- define "podium.config" -}}
{{- $election := mustMergeOverwrite (deepCopy (default dict .Values.config.leaderElection)) (dict "resourceNamespace" .Release.Namespace "resourceName" (include "podium.lease" .)) -}}
{{- $config := mustMergeOverwrite (deepCopy .Values.config) (dict "leaderElection" $election) -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{{ toYaml $config }}
{{- end }}
